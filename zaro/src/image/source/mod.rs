//! Pictures and files of numbers that become images.
