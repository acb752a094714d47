//! Identifies processes and machines, to recognise files left by dead processes.

use std::sync::OnceLock;

/// Distinguishes the processes of this machine, boot and container from all others; `None` where the system does not
/// tell.
pub(crate) fn machine() -> Option<&'static str> {
    static MACHINE: OnceLock<Option<String>> = OnceLock::new();
    let find = || {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let processes = std::fs::read_link("/proc/self/ns/pid").ok()?;
        Some(format!("{} {}", boot.trim(), processes.to_str()?))
    };
    MACHINE.get_or_init(find).as_deref()
}

/// The start time of a process of this machine, in ticks since boot; `None` if there is no process with this PID. A
/// zombie counts as none.
pub(crate) fn began(number: u64) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
    // The program name, in parentheses, may contain anything.
    let mut fields = text.rsplit_once(')')?.1.split_whitespace();
    let over = matches!(fields.next()?, "Z" | "X" | "x");
    if over { None } else { fields.nth(18)?.parse().ok() }
}
