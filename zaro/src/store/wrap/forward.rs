//! Macros that forward [`Store`](crate::store::Store) methods to the inner store.

/// Forwards the named methods of [`Store`](crate::store::Store) to `self.inner`. The others have to be written: with
/// `deny(clippy::missing_trait_methods)`, every wrapper must handle a new method.
macro_rules! forward {
    ($($method:ident)+) => { $($crate::store::wrap::forward::method!($method);)+ };
}

/// One method. Async ones are written as `async_trait` expands them, since it does not look into macros; the future is
/// that of the inner store, without another box.
macro_rules! method {
    (get_opts) => { $crate::store::wrap::forward::method!(@ get_opts['k, 'o](key: &'k str, options: $crate::store::GetOptions<'o>) -> Option<$crate::store::Object>); };
    (get_stream) => { $crate::store::wrap::forward::method!(@ get_stream['k, 'o](key: &'k str, options: $crate::store::GetOptions<'o>) -> Option<$crate::store::ObjectStream>); };
    (get_ranges) => { $crate::store::wrap::forward::method!(@ get_ranges['k, 'r, 'o](key: &'k str, ranges: &'r [$crate::store::ByteRange], state: Option<&'o $crate::store::ObjectMeta>) -> Option<(Vec<bytes::Bytes>, $crate::store::ObjectMeta)>); };
    (stat) => { $crate::store::wrap::forward::method!(@ stat['k](key: &'k str) -> Option<$crate::store::ObjectMeta>); };
    (put) => { $crate::store::wrap::forward::method!(@ put['k](key: &'k str, value: bytes::Bytes, when: $crate::store::Condition) -> $crate::store::Put); };
    (delete) => { $crate::store::wrap::forward::method!(@ delete['k](key: &'k str) -> ()); };
    (delete_unchanged) => { $crate::store::wrap::forward::method!(@ delete_unchanged['k, 't](key: &'k str, state: &'t $crate::store::ObjectMeta) -> $crate::store::Put); };
    (delete_prefix) => { $crate::store::wrap::forward::method!(@ delete_prefix['p](prefix: &'p str) -> ()); };
    (copy_object) => { $crate::store::wrap::forward::method!(@ copy_object['x, 'y](from: &'x str, to: &'y str) -> ()); };
    (promote) => { $crate::store::wrap::forward::method!(@ promote['p, 'i](prefix: &'p str, inner: &'i str) -> bool); };
    (finish) => { $crate::store::wrap::forward::method!(@ finish[]() -> ()); };
    (list_opts) => {
        fn list_opts(&self, prefix: &str, options: &$crate::store::ListOptions) -> futures::stream::BoxStream<'_, $crate::error::Result<$crate::store::Entry>> {
            self.inner.list_opts(prefix, options)
        }
    };
    (sites) => {
        fn sites(&self, prefix: &str) -> futures::stream::BoxStream<'_, $crate::error::Result<$crate::store::Site>> {
            self.inner.sites(prefix)
        }
    };
    (origin) => {
        fn origin(&self, key: &str) -> Option<$crate::store::Origin> {
            self.inner.origin(key)
        }
    };
    (facts) => {
        fn facts(&self) -> $crate::store::StoreFacts {
            self.inner.facts()
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
