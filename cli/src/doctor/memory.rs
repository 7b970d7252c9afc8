//! Memory: enough of it, in the pages and on the node that were asked for.

use super::{Check, machine::Machine};
use crate::config::Settings;
use ziggurat_base::ByteCount;

/// Whether the memory that a node would give is there.
pub(super) fn available(machine: &Machine, settings: &Settings) -> Check {
    const NAME: &str = "memory";
    let dram = settings.node.dram;
    let Some(available) = machine.meminfo("MemAvailable").map(ByteCount) else {
        return Check::unknown(NAME, "proc/meminfo");
    };
    let found = format!("{available} available, dram is {dram}");
    if settings.node.huge_pages || dram <= available {
        Check::ok(NAME, found)
    } else {
        Check::fail(
            NAME,
            found,
            format!("give at most --dram {available}, or free memory"),
        )
    }
}

/// Whether enough huge pages are reserved, when a node is to use them.
pub(super) fn huge_pages(machine: &Machine, settings: &Settings) -> Check {
    const NAME: &str = "huge pages";
    let (Some(free), Some(size)) = (
        machine.meminfo("HugePages_Free"),
        machine.meminfo("Hugepagesize"),
    ) else {
        return Check::unknown(NAME, "proc/meminfo with HugePages_Free");
    };
    let dram = settings.node.dram;
    let reserved = ByteCount(free.saturating_mul(size));
    let found = format!("{free} free of {}, together {reserved}", ByteCount(size));
    if !settings.node.huge_pages {
        return Check::ok(NAME, format!("{found}; not asked for"));
    }
    if dram <= reserved && size == ByteCount::mib(2).0 {
        return Check::ok(NAME, found);
    }
    let count = dram.0.div_ceil(ByteCount::mib(2).0);
    Check::fail(
        NAME,
        format!("{found}, dram is {dram}"),
        format!(
            "reserve pages of 2MiB: sysctl -w vm.nr_hugepages={count}, or leave out --huge-pages"
        ),
    )
}

/// Whether the kernel gives large pages by itself to the memory of a node, which is a memfd.
pub(super) fn transparent_huge_pages(machine: &Machine) -> Check {
    const NAME: &str = "transparent huge pages";
    const PATH: &str = "sys/kernel/mm/transparent_hugepage/shmem_enabled";
    match machine.choice(PATH) {
        None => Check::unknown(NAME, PATH),
        Some(choice) if matches!(&choice[..], "always" | "within_size" | "advise" | "force") => {
            Check::ok(NAME, format!("shared memory: {choice}"))
        }
        Some(choice) => Check::warn(
            NAME,
            format!("shared memory: {choice}"),
            format!("fewer TLB misses with: echo advise > /{PATH}"),
        ),
    }
}

/// Whether the NUMA node exists that the memory should be bound to.
pub(super) fn numa_nodes(machine: &Machine, settings: &Settings) -> Check {
    const NAME: &str = "NUMA nodes";
    const PATH: &str = "sys/devices/system/node/online";
    let Some(text) = machine.read(PATH) else {
        return Check::unknown(NAME, PATH);
    };
    let online = numbers(&text);
    match settings.node.numa_node {
        Some(node) if !online.contains(&node) => Check::fail(
            NAME,
            format!("{text} online, numa-node is {node}"),
            format!("give one of {text} as --numa-node, or leave it out"),
        ),
        None if online.len() > 1 => Check::warn(
            NAME,
            format!("{text} online, memory is not bound"),
            "run one node for each NUMA node, each with its --numa-node",
        ),
        _ => Check::ok(NAME, format!("{text} online")),
    }
}

/// The numbers of a list such as `0-3,8`.
fn numbers(text: &str) -> Vec<u32> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.trim().parse().ok()?..=last.trim().parse().ok()?)
    };
    text.split(',').filter_map(range).flatten().collect()
}

/// How much memory this process may pin, which network cards ask for.
pub(super) fn lockable(machine: &Machine, settings: &Settings) -> Check {
    const NAME: &str = "lockable memory";
    let Some(limit) = machine.limit("Max locked memory") else {
        return Check::unknown(NAME, "proc/self/limits");
    };
    if limit == u64::MAX {
        return Check::ok(NAME, "unlimited");
    }
    let limit = ByteCount(limit);
    if limit >= settings.node.dram {
        return Check::ok(NAME, limit.to_string());
    }
    Check::warn(
        NAME,
        format!("{limit}, dram is {}", settings.node.dram),
        "TCP does not need it, RDMA does: ulimit -l unlimited, or LimitMEMLOCK=infinity of the service",
    )
}

#[cfg(test)]
mod tests {
    use super::{available, huge_pages, lockable, numa_nodes, numbers};
    use crate::{
        config::Settings,
        doctor::{Verdict, machine::tests::machine},
    };
    use ziggurat_base::ByteCount;

    fn settings(dram: ByteCount) -> Settings {
        let mut settings = Settings::defaults();
        settings.node.dram = dram;
        settings
    }

    #[test]
    fn more_memory_than_there_is_cannot_work() {
        let (_dir, machine) = machine(&[("proc/meminfo", "MemAvailable: 2097152 kB\n")]);
        let verdict = |dram| available(&machine, &settings(dram)).verdict;
        assert_eq!(verdict(ByteCount::gib(2)), Verdict::Ok);
        assert_eq!(verdict(ByteCount::gib(3)), Verdict::Fail);
    }

    #[test]
    fn huge_pages_matter_when_they_are_asked_for() {
        let meminfo = "HugePages_Free: 10\nHugepagesize: 2048 kB\n";
        let (_dir, machine) = machine(&[("proc/meminfo", meminfo)]);
        let mut settings = settings(ByteCount::mib(64));
        assert_eq!(huge_pages(&machine, &settings).verdict, Verdict::Ok);
        settings.node.huge_pages = true;
        let check = huge_pages(&machine, &settings);
        assert_eq!(check.verdict, Verdict::Fail);
        assert!(check.cure.unwrap().contains("nr_hugepages=32"));
        settings.node.dram = ByteCount::mib(20);
        assert_eq!(huge_pages(&machine, &settings).verdict, Verdict::Ok);
    }

    #[test]
    fn a_numa_node_must_exist() {
        assert_eq!(numbers("0-2,5"), [0, 1, 2, 5]);
        let (_dir, machine) = machine(&[("sys/devices/system/node/online", "0-1\n")]);
        let mut settings = settings(ByteCount::mib(1));
        assert_eq!(numa_nodes(&machine, &settings).verdict, Verdict::Warn);
        settings.node.numa_node = Some(1);
        assert_eq!(numa_nodes(&machine, &settings).verdict, Verdict::Ok);
        settings.node.numa_node = Some(2);
        assert_eq!(numa_nodes(&machine, &settings).verdict, Verdict::Fail);
    }

    #[test]
    fn what_the_machine_does_not_tell_is_no_fault() {
        let (_dir, machine) = machine(&[]);
        let settings = settings(ByteCount::gib(1));
        for check in [
            available(&machine, &settings),
            numa_nodes(&machine, &settings),
            lockable(&machine, &settings),
        ] {
            assert_eq!(check.verdict, Verdict::Ok, "{check:?}");
        }
    }
}
