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
    assert!(wrong("base = \"hwm\"\n").contains("there are server, hwl, ehou, picl"));
    assert!(wrong("[memory]\npreset = \"dram\"\n").contains("ddr4-3200"));
    assert!(wrong("[memory]\ntrcd = \"1 ns\"\n").contains("did you mean 'memory.tRCD'"));
    let mut machine = MachineConfig::named("server").unwrap();
    machine.set_option("memory.banks", "3").unwrap();
    let error = machine.validate().unwrap_err().to_string();
    assert_eq!(error, "server, memory.banks=3: memory.banks is 3: take a power of two");
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
