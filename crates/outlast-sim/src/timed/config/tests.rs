use super::*;

#[test]
fn every_preset_can_be_built_and_every_key_comes_back() {
    for preset in PRESETS {
        let machine = MachineConfig::named(preset.name).unwrap();
        machine.validate().unwrap();
        for (key, _) in KEYS {
            let text = machine.get(key).unwrap();
            let mut other = MachineConfig::blank();
            other.set("test", key, &text).unwrap();
            assert_eq!(other.get(key), Some(text), "{key} of {}", preset.name);
        }
        for memory in MEMORY_PRESETS {
            let mut machine = machine.clone();
            machine.set_option("memory.preset", memory.name).unwrap();
            machine.validate().unwrap();
        }
    }
}

#[test]
fn a_file_builds_on_a_preset() {
    let text =
        "base = \"hwl\"\n[core]\nrob = 64\n[memory]\npreset = \"picl-nvm\"\ntCL = \"9 ns\"\n";
    let machine = MachineConfig::from_toml("mine.toml", text).unwrap();
    assert_eq!(machine.core.rob, 64);
    assert_eq!(machine.memory.t_cl, Span::Ps(9000));
    assert_eq!(machine.memory.page, PagePolicy::Closed, "from picl-nvm");
    assert_eq!(machine.core.clock, Clock(2_500_000), "from hwl");
}

#[test]
fn what_is_wrong_is_named_in_one_line() {
    let wrong = |text: &str| {
        let error = MachineConfig::from_toml("mine.toml", text).unwrap_err().to_string();
        assert_eq!(error.lines().count(), 1, "{error}");
        error
    };
    assert_eq!(
        wrong("base = \"hwl\"\n[core]\nrobb = 64\n"),
        "mine.toml: no key is named 'core.robb'; did you mean 'core.rob'?"
    );
    assert_eq!(
        wrong("base = \"hwl\"\n[l1]\nlatency = 4\n"),
        "mine.toml: l1.latency = 4 is not right: give a time with its unit, as in \"4 cycles\" or \
         \"13.75 ns\""
    );
    assert!(wrong("[core\nrob = 4").starts_with("mine.toml: line 1"));
    assert!(wrong("base = \"hwm\"\n").contains("did you mean 'hwl'?"));
    assert!(wrong("base = \"fast\"\n").contains("there are server, hwl, ehou, picl"));
    assert!(wrong("[core]\nfrequency = 3\n").contains("`outlast sim machines` lists them"));
    assert!(wrong("[memory]\npreset = \"dram\"\n").contains("ddr4-3200"));
    assert!(wrong("[memory]\ntrcd = \"1 ns\"\n").contains("did you mean 'memory.tRCD'"));
    let mut machine = MachineConfig::named("server").unwrap();
    machine.set_option("memory.banks", "3").unwrap();
    let error = machine.validate().unwrap_err().to_string();
    assert_eq!(error, "server, memory.banks=3: memory.banks is 3: take a power of two");
}

#[test]
fn a_file_that_is_its_own_base_is_refused() {
    let file = std::env::temp_dir().join(format!("outlast-base-{}.toml", std::process::id()));
    std::fs::write(&file, format!("base = \"{}\"\n", file.display())).unwrap();
    let error = MachineConfig::named(file.to_str().unwrap()).unwrap_err().to_string();
    std::fs::remove_file(&file).unwrap();
    assert!(error.contains("in a circle"), "{error}");
}

#[test]
fn a_file_without_a_base_starts_from_the_default_machine() {
    let machine = MachineConfig::from_toml("mine.toml", "[core]\nrob = 64\n").unwrap();
    let mut server = MachineConfig::named(DEFAULT_MACHINE).unwrap();
    (server.core.rob, server.name) = (64, "mine.toml".to_owned());
    assert_eq!(machine, server);
    machine.validate().unwrap();
}

/// Every key with a number, a size, a time or a rate is refused by its name when that is absurd:
/// none aborts, none is cut to fewer bits, none makes a machine whose first access takes hours.
#[test]
fn absurd_values_are_refused_by_name_and_range() {
    let absurd = [
        "0",
        "4294967295",
        "2147483648",
        "65536",
        "0 B",
        "65536 MiB",
        "900000000 GiB",
        "999999999999999 cycles",
        "900000 us",
        "999999999999 us",
        "0.001 MHz",
        "100 GHz",
        "0.001 MB/s",
        "900000000 GB/s",
    ];
    // Any number of these is as good as any other: they are compared, counted up to or printed.
    let any = ["memory.row_hits", "memory.endurance"];
    for preset in PRESETS {
        for (key, _) in KEYS {
            let mut refused = 0;
            for value in absurd {
                let mut machine = MachineConfig::named(preset.name).unwrap();
                if machine.set_option(key, value).is_err() {
                    continue; // Of another kind.
                }
                if let Err(error) = machine.validate() {
                    let message = error.to_string();
                    assert_eq!(message.lines().count(), 1, "{message}");
                    let part = key.split('.').next().unwrap();
                    assert!(message.contains(part), "{key} = {value}: {message}");
                    refused += 1;
                }
            }
            let number = machine_has_number(key);
            assert!(refused > 0 || !number || any.contains(key), "{key} takes anything");
        }
    }
}

/// Whether a key's value in the default machine begins with a digit and is no clock: those are
/// refused when they are read.
fn machine_has_number(key: &str) -> bool {
    let value = MachineConfig::named(DEFAULT_MACHINE).unwrap().get(key).unwrap();
    value.starts_with(|c: char| c.is_ascii_digit()) && !value.ends_with("Hz")
}

#[test]
fn a_machine_of_tempting_values_is_refused_with_what_would_be_right() {
    for (key, value, says) in [
        ("llc.size", "65536 MiB", "llc.size is 65536 MiB: take at most 2048 MiB"),
        ("memory.channels", "2147483648", "memory.channels is 2147483648: take 1 to 64"),
        ("memory.drain_high", "0", "memory.drain_high is 0: take 1 to "),
        ("caches.wc_lines", "65536", "caches.wc_lines is 65536: take 1 to 1024"),
        ("memory.tRFC", "50 us", "take less than memory.tREFI"),
        ("memory.tCL", "1 us", ""),
        ("memory.tCL", "101 us", "memory.tCL is 101000 ns: take 0 ns to 100 us"),
    ] {
        let mut machine = MachineConfig::named("server").unwrap();
        machine.set_option(key, value).unwrap();
        match machine.validate() {
            Ok(()) => assert_eq!(says, "", "{key} = {value}"),
            Err(error) => {
                let error = error.to_string();
                assert!(!says.is_empty() && error.contains(says), "{error}");
            }
        }
    }
}

#[test]
fn refreshes_of_banks_need_their_time() {
    let mut machine = MachineConfig::named("server").unwrap();
    machine.set_option("memory.refresh", "per-bank").unwrap();
    let error = machine.validate().unwrap_err().to_string();
    assert!(error.contains("memory.tRFCpb has to be above 0 ns"), "{error}");
    machine.set_option("memory.tRFCpb", "90 ns").unwrap();
    machine.validate().unwrap();
    let error = machine.set_option("memory.refresh", "by bank").unwrap_err().to_string();
    assert!(error.contains("all-bank or per-bank"), "{error}");
}
