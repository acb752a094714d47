//! Reads a codec's configuration: each member is requested once, by name, and unknown members are detected.

use crate::error::{Result, invalid};
use crate::meta::json::Json;

/// The configuration of one codec while it is being read.
#[derive(Debug)]
pub struct Config<'a> {
    members: &'a [(String, Json)],
    asked: std::cell::RefCell<Vec<&'static str>>,
}

impl<'a> Config<'a> {
    /// Over the members of a configuration object.
    pub fn new(members: &'a [(String, Json)]) -> Self {
        Self { members, asked: std::cell::RefCell::default() }
    }

    /// Member `name`; `null` counts as absent.
    pub fn get(&self, name: &'static str) -> Option<&'a Json> {
        self.asked.borrow_mut().push(name);
        self.members.iter().find(|(n, _)| n == name).map(|(_, v)| v).filter(|v| **v != Json::Null)
    }

    /// Member `name`, which must be there.
    pub fn need(&self, name: &'static str) -> Result<&'a Json> {
        self.get(name).ok_or_else(|| invalid!("{name:?} is missing").with_field(name))
    }

    /// An integer, if given.
    pub fn int(&self, name: &'static str) -> Result<Option<i64>> {
        self.typed(name, "an integer", Json::as_i64)
    }

    /// A non-negative integer, if given.
    pub fn uint(&self, name: &'static str) -> Result<Option<u64>> {
        self.typed(name, "a non-negative integer", Json::as_u64)
    }

    /// A number, if given; integers and floats alike.
    pub fn float(&self, name: &'static str) -> Result<Option<f64>> {
        self.typed(name, "a number", |v| {
            v.as_f64().or_else(|| match v.as_str()? {
                "NaN" => Some(f64::NAN),
                "Infinity" => Some(f64::INFINITY),
                "-Infinity" => Some(f64::NEG_INFINITY),
                _ => None,
            })
        })
    }

    /// A string, if given.
    pub fn str(&self, name: &'static str) -> Result<Option<&'a str>> {
        self.typed(name, "a string", |v| v.as_str())
    }

    /// A boolean, if given.
    pub fn bool(&self, name: &'static str) -> Result<Option<bool>> {
        self.typed(name, "true or false", Json::as_bool)
    }

    /// Fails if there is a member that was not asked for; for codecs whose text says so.
    pub fn finish(&self) -> Result<()> {
        let asked = self.asked.borrow();
        match self.members.iter().find(|(n, _)| !asked.iter().any(|a| a == n)) {
            Some((n, _)) => Err(invalid!("{n:?} is not a setting of this codec").with_field(n)),
            None => Ok(()),
        }
    }

    fn typed<T>(
        &self,
        name: &'static str,
        what: &str,
        read: impl FnOnce(&'a Json) -> Option<T>,
    ) -> Result<Option<T>> {
        match self.get(name) {
            None => Ok(None),
            Some(v) => {
                read(v).map(Some).ok_or_else(|| invalid!("{name:?} must be {what}, not {v}").with_field(name))
            }
        }
    }
}
