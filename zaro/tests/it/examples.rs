//! The cookbook runs. Each recipe is compiled into this test, which is quicker than a binary for each.

/// `main` is `pub(crate)` in every recipe, so that it can be called from here.
#[path = "../../examples"]
mod recipe {
    pub(super) mod copy_and_convert;
    pub(super) mod fortran_order;
    pub(super) mod into_your_buffer;
    pub(super) mod list_tree;
    pub(super) mod manifest;
    pub(super) mod many_windows;
    pub(super) mod own_codec;
    pub(super) mod progress_and_cancel;
    pub(super) mod read_window;
    pub(super) mod remote_store;
    pub(super) mod render_image;
    pub(super) mod s3;
    pub(super) mod write_array;
}

macro_rules! recipes {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                recipe::$name::main().unwrap();
            }
        )*

        /// A recipe that is not named here would not be run.
        #[test]
        fn every_recipe_is_here() {
            let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
            let mut found: Vec<String> = std::fs::read_dir(folder)
                .unwrap()
                .map(|e| e.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
                .collect();
            found.sort();
            assert_eq!(found, [$(stringify!($name)),*]);
        }
    };
}

recipes! {
    copy_and_convert
    fortran_order
    into_your_buffer
    list_tree
    manifest
    many_windows
    own_codec
    progress_and_cancel
    read_window
    remote_store
    render_image
    s3
    write_array
}
