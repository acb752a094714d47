//! Methods that a store around another leaves to it.

/// Writes the methods of [`Store`](crate::store::Store) that are named, as those of `self.inner`. What is not named has to be
/// written: `deny(clippy::missing_trait_methods)` sees to it that a new method is thought of in every wrapper.
macro_rules! forward {
    ($($method:ident)+) => { $($crate::store::wrap::forward::method!($method);)+ };
}

/// One method. Those that are async are written as `async_trait` has them, since it does not look into macros; the future
/// is that of the store inside, without one more around it.
macro_rules! method {
    (get) => { $crate::store::wrap::forward::method!(@ get['k](key: &'k str, range: Option<$crate::store::ByteRange>) -> Option<bytes::Bytes>); };
    (get_with) => { $crate::store::wrap::forward::method!(@ get_with['k, 'a](key: &'k str, ask: $crate::store::Ask<'a>) -> Option<(bytes::Bytes, $crate::store::ObjectState)>); };
    (get_ranges) => { $crate::store::wrap::forward::method!(@ get_ranges['k, 'r, 'o](key: &'k str, ranges: &'r [$crate::store::ByteRange], of: Option<&'o $crate::store::ObjectState>) -> Option<(Vec<bytes::Bytes>, $crate::store::ObjectState)>); };
    (get_pinned) => { $crate::store::wrap::forward::method!(@ get_pinned['k, 'p](key: &'k str, range: Option<$crate::store::ByteRange>, pin: &'p $crate::store::Pin) -> Option<bytes::Bytes>); };
    (size) => { $crate::store::wrap::forward::method!(@ size['k](key: &'k str) -> Option<u64>); };
    (state) => { $crate::store::wrap::forward::method!(@ state['k](key: &'k str) -> Option<String>); };
    (list) => { $crate::store::wrap::forward::method!(@ list['p](prefix: &'p str) -> $crate::store::Listing); };
    (put) => { $crate::store::wrap::forward::method!(@ put['k](key: &'k str, value: bytes::Bytes, when: $crate::store::Condition) -> $crate::store::Put); };
    (get_tagged) => { $crate::store::wrap::forward::method!(@ get_tagged['k](key: &'k str) -> Option<(bytes::Bytes, $crate::store::Tag)>); };
    (delete) => { $crate::store::wrap::forward::method!(@ delete['k](key: &'k str) -> ()); };
    (delete_unchanged) => { $crate::store::wrap::forward::method!(@ delete_unchanged['k, 't](key: &'k str, tag: &'t $crate::store::Tag) -> $crate::store::Put); };
    (delete_prefix) => { $crate::store::wrap::forward::method!(@ delete_prefix['p](prefix: &'p str) -> ()); };
    (copy_object) => { $crate::store::wrap::forward::method!(@ copy_object['x, 'y](from: &'x str, to: &'y str) -> ()); };
    (promote) => { $crate::store::wrap::forward::method!(@ promote['p, 'i](prefix: &'p str, inner: &'i str) -> bool); };
    (finish) => { $crate::store::wrap::forward::method!(@ finish[]() -> ()); };
    (keys) => {
        fn keys(&self, prefix: &str) -> futures::stream::BoxStream<'_, $crate::error::Result<$crate::store::KeyEntry>> {
            self.inner.keys(prefix)
        }
    };
    (sites) => {
        fn sites(&self, prefix: &str) -> futures::stream::BoxStream<'_, $crate::error::Result<$crate::store::Site>> {
            self.inner.sites(prefix)
        }
    };
    (origin) => {
        fn origin(&self, key: &str) -> Option<String> {
            self.inner.origin(key)
        }
    };
    (lists_all) => {
        fn lists_all(&self) -> bool {
            self.inner.lists_all()
        }
    };
    (is_writable) => {
        fn is_writable(&self) -> bool {
            self.inner.is_writable()
        }
    };
    (free_space) => {
        fn free_space(&self) -> Option<u64> {
            self.inner.free_space()
        }
    };
    (direct) => {
        fn direct(&self) -> Option<&dyn $crate::store::Direct> {
            self.inner.direct()
        }
    };
    (is_remote) => {
        fn is_remote(&self) -> bool {
            self.inner.is_remote()
        }
    };
    (@ $name:ident[$($life:lifetime),*]($($arg:ident: $type:ty),*) -> $answer:ty) => {
        fn $name<'s, $($life,)* 'f>(
            &'s self
            $(, $arg: $type)*
        ) -> futures::future::BoxFuture<'f, $crate::error::Result<$answer>>
        where
            's: 'f,
            $($life: 'f,)*
            Self: 'f,
        {
            self.inner.$name($($arg),*)
        }
    };
}

pub(crate) use {forward, method};
