//! The file around an image: Z1 to Z6.
