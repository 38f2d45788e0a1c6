//! Machines and options of schemes as a command line asks for them.

use std::collections::BTreeMap;

use outlast_schemes::{AIT_ON, AIT_PREFIX, Key, MachineScheme, Options, PREFIX};
use outlast_sim::timed::{CoreKind, KEYS, MachineConfig};

use crate::record::Record;

/// Most settings that one command runs.
const SETTINGS_MAX: usize = 1000;

/// A machine, and what was chosen of schemes.
#[derive(Clone, PartialEq, Debug)]
pub struct Setting {
    /// The machine.
    pub machine: MachineConfig,
    /// The machine's name before any key was set.
    base: String,
    /// Keys of the machine that were set, and their values.
    of_machine: Vec<(String, String)>,
    /// Keys as schemes name them, and their values.
    chosen: Vec<(String, String)>,
}

impl Setting {
    /// What was chosen of a scheme. Keys that it does not have are other schemes'.
    ///
    /// # Errors
    /// When a value is not of its key's kind.
    pub fn options_of(&self, scheme: MachineScheme) -> Result<Options, Box<dyn std::error::Error>> {
        let mut options = Options::default();
        let keys = scheme.keys();
        for (name, text) in &self.chosen {
            if let Some(key) = keys.iter().find(|key| key.name == name) {
                let origin = format!("--set {}={text}", key.full_name());
                options.set(&keys, &origin, name, text)?;
            }
        }
        Ok(options)
    }

    /// Whether every scheme stands on address indirection on this machine: as chosen, else by default.
    pub(crate) fn stands_on_ait(&self, by_default: bool) -> bool {
        let chosen = self.chosen.iter().rfind(|(name, _)| name == AIT_ON.name);
        chosen.map_or(by_default, |(_, value)| value == "true")
    }

    /// The machine by its name, and the value of each of its keys.
    pub fn described(&self) -> (String, BTreeMap<String, String>) {
        let key = |(key, _): &(&str, &str)| Some(((*key).to_owned(), self.machine.get(key)?));
        (self.machine.name.clone(), KEYS.iter().filter_map(key).collect())
    }

    /// Says in records on which machine they were measured, and which of its keys were set.
    pub fn mark_machine(&self, records: &mut [Record]) {
        for record in records {
            record.machine = Some(self.base.clone());
            record.set.extend(self.of_machine.iter().cloned());
        }
    }

    /// Says in records what was chosen of machine and scheme: the values of a sweep differ in nothing else.
    pub fn mark(&self, scheme: MachineScheme, records: &mut [Record]) {
        self.mark_machine(records);
        let keys = scheme.keys();
        let key_of = |name: &str| keys.iter().find(|key| key.name == name);
        // Keys of address indirection hold for every scheme: they stand with the machine's.
        let is_of_layer = |(name, _): &&(String, String)| name.starts_with(AIT_PREFIX);
        let of_layer = self.chosen.iter().filter(is_of_layer);
        let of_scheme = self.chosen.iter().filter(|chosen| !is_of_layer(chosen));
        for (name, value) in of_layer.chain(of_scheme) {
            let Some(key) = key_of(name) else { continue };
            for record in records.iter_mut() {
                let config = record.config.get_or_insert_default();
                *config += &format!(", {}={value}", key.full_name());
                record.set.insert(key.full_name(), value.clone());
            }
        }
    }
}

/// Every setting that `--config`, `--core` and `--set key=value[,value…]` ask for: all
/// combinations, the last key's values changing fastest. Keys of a scheme are those of one of
/// `schemes`.
///
/// # Errors
/// When a machine, key or value is unknown, or the machine cannot be built.
pub fn settings(
    config: &str,
    core: Option<CoreKind>,
    options: &[String],
    schemes: &[MachineScheme],
) -> Result<Vec<Setting>, Box<dyn std::error::Error>> {
    let mut machine = MachineConfig::named(config)?;
    if let Some(core) = core {
        machine.core.kind = core;
        if core == CoreKind::InOrder {
            machine.core.threads = 1; // Two threads a core are for the other kind.
        }
    }
    let mut keys: Vec<Key> = Vec::new();
    for key in schemes.iter().flat_map(|scheme| scheme.keys()) {
        if !keys.iter().any(|known| known.name == key.name) {
            keys.push(key);
        }
    }
    let base = machine.name.clone();
    let (of_machine, chosen) = (Vec::new(), Vec::new());
    let mut settings = vec![Setting { machine, base, of_machine, chosen }];
    for option in options {
        let (key, values) = option.split_once('=').ok_or_else(|| {
            format!("--set {option} is not right: give KEY=VALUE, as in core.rob=192,224")
        })?;
        let key = key.trim();
        let of_layer = key.starts_with(AIT_PREFIX).then_some(key);
        let of_scheme = key.strip_prefix(PREFIX).or(of_layer);
        let mut next = Vec::new();
        for setting in &settings {
            for value in values.split(',').map(str::trim) {
                let mut setting = setting.clone();
                match of_scheme {
                    None => {
                        setting.machine.set_option(key, value)?;
                        setting.of_machine.push((key.to_owned(), value.to_owned()));
                    }
                    Some(name) => {
                        Options::default().set(&keys, &format!("--set {option}"), name, value)?;
                        setting.chosen.push((name.to_owned(), value.to_owned()));
                    }
                }
                next.push(setting);
            }
        }
        settings = next;
        if settings.len() > SETTINGS_MAX {
            return Err(format!(
                "--set {option} makes {} machines: {SETTINGS_MAX} or fewer can be compared",
                settings.len()
            )
            .into());
        }
    }
    for Setting { machine, .. } in &settings {
        machine.validate()?;
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Kind, Metric};

    #[test]
    fn options_make_every_combination() {
        let options = ["core.rob=64,128".to_owned(), "l1.latency=4 cycles,5 cycles".to_owned()];
        let all = settings("server", Some(CoreKind::InOrder), &options, &[]).unwrap();
        let keys = |setting: &Setting| {
            let machine = &setting.machine;
            (machine.get("core.rob").unwrap(), machine.get("l1.latency").unwrap())
        };
        let expected = [("64", "4"), ("64", "5"), ("128", "4"), ("128", "5")]
            .map(|(rob, latency)| (rob.to_owned(), format!("{latency} cycles")));
        assert_eq!(all.iter().map(keys).collect::<Vec<_>>(), expected);
        assert!(all.iter().all(|setting| setting.machine.core.kind == CoreKind::InOrder));
        assert!(settings("server", None, &["core.rob".to_owned()], &[]).is_err());
    }

    #[test]
    fn a_schemes_keys_are_set_and_swept_like_the_machines() {
        let is_own = |key: &Key| !key.name.starts_with(AIT_PREFIX);
        let with_keys = MachineScheme::all().find(|scheme| scheme.keys().iter().any(is_own));
        let with_keys = with_keys.unwrap();
        let key = with_keys.keys()[0];
        let (least, most) = (key.show(key.range.0), key.show(key.range.1));
        let option = format!("scheme.{}={least},{most}", key.name);
        let set = |option: &str, schemes: &[MachineScheme]| {
            settings("server", None, &[option.to_owned()], schemes)
        };
        let all = set(&option, &[MachineScheme::plain(), with_keys]).unwrap();
        let values: Vec<u64> =
            all.iter().map(|setting| setting.options_of(with_keys).unwrap().get(&key)).collect();
        assert_eq!(values, [key.range.0, key.range.1]);
        let configs: Vec<_> = all
            .iter()
            .map(|setting| {
                let record = Record::new(Kind::Sim, "w", with_keys.name(), Metric::IPC, 1.0);
                let mut records = [record.config("server")];
                setting.mark(MachineScheme::plain(), &mut records);
                setting.mark(with_keys, &mut records);
                records[0].config.clone().unwrap()
            })
            .collect();
        let expected = [&least, &most].map(|value| format!("server, scheme.{}={value}", key.name));
        assert_eq!(configs, expected);
        // Of plain memory's records the key is not one.
        let marked = |scheme: MachineScheme| {
            let mut records = [Record::new(Kind::Sim, "w", scheme.name(), Metric::IPC, 1.0)];
            all[0].mark(scheme, &mut records);
            (records[0].machine.clone(), records[0].set.len())
        };
        let server = Some("server".to_owned());
        assert_eq!(marked(with_keys), (server.clone(), 1));
        assert_eq!(marked(MachineScheme::plain()), (server, 0));
        assert_eq!(all[0].options_of(MachineScheme::plain()).unwrap(), Options::default());
        let refused =
            |option: &str, schemes: &[MachineScheme]| set(option, schemes).unwrap_err().to_string();
        let wrong = format!("scheme.{}=many", key.name);
        assert!(refused(&wrong, &[with_keys]).contains(&key.expects()));
        let misspelt = format!("scheme.{}x=1", key.name);
        assert!(refused(&misspelt, &[with_keys]).contains(&format!("'scheme.{}'", key.name)));
        let of_plain = refused(&option, &[MachineScheme::plain()]);
        assert!(of_plain.contains("there are ait.on"), "{of_plain}");
    }
}
