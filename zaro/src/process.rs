//! Which process of which machine: how what a process left is known as that of a dead one.

use std::sync::OnceLock;

/// What tells the processes of this machine, since its last start and in this container, from all others; `None` where the
/// system does not say.
pub(crate) fn machine() -> Option<&'static str> {
    static MACHINE: OnceLock<Option<String>> = OnceLock::new();
    let find = || {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let processes = std::fs::read_link("/proc/self/ns/pid").ok()?;
        Some(format!("{} {}", boot.trim(), processes.to_str()?))
    };
    MACHINE.get_or_init(find).as_deref()
}

/// When a process of this machine began, in ticks since the machine did; `None` if there is none of this number. One that
/// is over and only waits to be looked at is none.
pub(crate) fn began(number: u64) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
    // The name of the program, in parentheses, may hold anything.
    let mut fields = text.rsplit_once(')')?.1.split_whitespace();
    let over = matches!(fields.next()?, "Z" | "X" | "x");
    if over { None } else { fields.nth(18)?.parse().ok() }
}
