//! Checks of which recovery uses only the verdict, against the reference machine.

use super::*;
use crate::memory::image::mix;

/// A check of a range: `kind` says of which contents it is fond.
#[derive(Clone, Copy, Debug)]
struct Check {
    at: u64,
    len: usize,
    kind: u64,
}

impl Check {
    fn passes(&self, bytes: &[u8]) -> bool {
        let sum = bytes.iter().fold(self.kind, |sum, byte| mix(sum ^ u64::from(*byte)));
        match self.kind {
            0 => true,
            1 => bytes.iter().all(|byte| *byte == 0),
            2 => bytes.contains(&0),
            kind => sum.is_multiple_of(2 + kind % 7),
        }
    }

    fn on_image(&self, image: &ImageMedium) -> bool {
        image.verify(PoolOffset(self.at), self.len as u64, |bytes| self.passes(bytes))
    }

    fn on_bytes(&self, bytes: &[u8]) -> bool {
        self.passes(&bytes[self.at as usize..][..self.len])
    }
}

/// Ranges that begin and end within words and lines, overlap and repeat.
fn checks() -> impl Strategy<Value = Vec<Check>> {
    let at = prop::sample::select(vec![0u64, 4, 8, 16, 60, 64, 72, 512]);
    let len = prop::sample::select(vec![0usize, 1, 8, 12, 16, 24, 64]);
    prop::collection::vec((at, len, 0..40u64), 1..4).prop_map(|checks| {
        checks.into_iter().map(|(at, len, kind)| Check { at, len, kind }).collect()
    })
}

proptest! {
    #![proptest_config(cases())]

    /// Verdicts, then words that are loaded after all, then everything: each that the machine can
    /// leave and none else, and all of them counted.
    #[test]
    fn verdicts_and_what_is_loaded_after_them_are_those_of_the_reference_machine(
        program in programs(),
        model in models(),
        checks in checks(),
        loads in prop::collection::vec(0..LEN / 8, 0..3),
        all in any::<bool>(),
    ) {
        let log = log_of(&program);
        let settings = Exhaustive::new(model).crashes(1);
        let (checked, outcome) = checked_by_acks(&settings, &base(), &log, |image: &ImageMedium| {
            let verdicts: Vec<bool> = checks.iter().map(|check| check.on_image(image)).collect();
            let words: Vec<u64> =
                loads.iter().map(|index| image.load_u64(PoolOffset(index * 8))).collect();
            let again: Vec<bool> = checks.iter().map(|check| check.on_image(image)).collect();
            (verdicts, words, again, all.then(|| image.to_bytes()))
        });
        let possible = brute_by_acks(&base(), &log, model)
            .into_iter()
            .map(|(acks, images)| {
                let seen = |bytes: &Vec<u8>| {
                    let verdicts: Vec<bool> =
                        checks.iter().map(|check| check.on_bytes(bytes)).collect();
                    let word = |index: &u64| crate::memory::history::word_at(bytes, *index);
                    let words = loads.iter().map(word).collect();
                    (verdicts.clone(), words, verdicts, all.then(|| bytes.clone()))
                };
                (acks, images.iter().map(seen).collect())
            })
            .collect();
        assert_same(&checked, &possible);
        prop_assert!(outcome.complete);
        let level = &outcome.levels[0];
        prop_assert_eq!(level.allowed, level.covered);
    }

    /// A second crash meets words that the first recovery has only checked.
    #[test]
    fn what_one_recovery_has_checked_is_open_to_the_next(
        program in programs(),
        model in models(),
        checks in checks(),
        step in (0..3usize, 0..2u64, any::<bool>()),
    ) {
        let log = log_of(&program);
        prop_assume!(log.len() < 6);
        let (line, word, fence) = step;
        let mut second = BTreeSet::new();
        let settings = Exhaustive::new(model);
        let outcome = settings.run(&base(), &log, |image: &ImageMedium, crash: &Crash<'_>| {
            let verdicts: Vec<bool> = checks.iter().map(|check| check.on_image(image)).collect();
            if crash.level == 2 {
                second.insert((verdicts, image.to_bytes()));
            } else if verdicts[0] {
                recovery_step(image, line, word, true, fence);
            }
            Ok(())
        }).unwrap();
        prop_assert!(outcome.complete);
        let mut expected = BTreeSet::new();
        for image in brute::images(&base(), &log, model).into_iter().flatten().collect::<Images>() {
            if !checks[0].on_bytes(&image) {
                continue;
            }
            let medium = Recorder::from_image(image.clone());
            recovery_step(&medium, line, word, true, fence);
            for left in brute::images(&image, &medium.take_log(), model).into_iter().flatten() {
                expected.insert((checks.iter().map(|check| check.on_bytes(&left)).collect(), left));
            }
        }
        prop_assert!(second == expected, "{} and {}", second.len(), expected.len());
    }

    #[test]
    fn a_failure_after_a_verdict_has_a_witness_that_the_rules_accept(
        program in programs(),
        model in models(),
        checks in checks(),
        bad in any::<[bool; 2]>(),
    ) {
        let log = log_of(&program);
        let settings = Exhaustive::new(model).failures_max(20);
        let verify = |image: &ImageMedium, crash: &Crash<'_>| {
            checks[0].on_image(image);
            if crash.level == 1 {
                recovery_step(image, 1, 0, true, false);
            }
            let last = checks.len() - 1;
            if checks[last].on_image(image) == bad[crash.level as usize - 1] {
                return Err(Violation::from("what is not wanted"));
            }
            Ok(())
        };
        let outcome = settings.run(&base(), &log, verify).unwrap();
        for failure in &outcome.failures {
            assert_accepted(&settings, &log, failure, verify);
            let small = settings.shrink(&base(), &log, failure, verify).unwrap();
            assert_accepted(&settings, &log, &small, verify);
        }
    }
}

/// A record of `words` words, streamed, under a checksum in its first word: the base image and the
/// log of its operations.
fn record_of(words: u64) -> (Vec<u8>, OpLog) {
    let medium = Recorder::new(words.next_multiple_of(8) * 8 + 64);
    let mut record: Vec<u64> = (0..words).map(|word| mix(word + 1)).collect();
    record[0] = sum(&record[1..]);
    let bytes: Vec<u8> = record.iter().flat_map(|word| word.to_le_bytes()).collect();
    medium.store_nt(PoolOffset(64), &bytes);
    (vec![0; medium.len() as usize], medium.take_log())
}

fn sum(words: &[u64]) -> u64 {
    words.iter().fold(1, |sum, word| mix(sum ^ word)) | 1
}

fn is_whole(bytes: &[u8]) -> bool {
    let words: Vec<u64> =
        bytes.chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
    words[0] == sum(&words[1..])
}

#[test]
fn a_streamed_record_that_is_refused_is_one_image() {
    for words in [2, 8, 16, 20] {
        let (base, log) = record_of(words);
        let mut found = BTreeSet::new();
        let outcome = Exhaustive::new(Model::default())
            .run(&base, &log, |image: &ImageMedium, _: &Crash<'_>| {
                let valid = image.verify(PoolOffset(64), words * 8, is_whole);
                found.insert(valid.then(|| image.to_bytes()));
                Ok(())
            })
            .unwrap();
        assert!(outcome.complete);
        assert_eq!(outcome.levels[0].allowed.exact(), Some(1 << words));
        assert_eq!((outcome.levels[0].verified, found.len()), (2, 2), "{words} words");
    }
}

/// Of more contents than can be checked in a moment some are, which is said.
#[test]
fn a_record_too_long_to_check_in_all_its_mixtures_is_checked_in_some() {
    let (base, log) = record_of(200);
    let run = |is_valid: fn(&[u8]) -> bool| {
        Exhaustive::new(Model::default())
            .run(&base, &log, |image: &ImageMedium, _: &Crash<'_>| {
                let valid = image.verify(PoolOffset(64), 1600, is_valid);
                match valid.then(|| image.to_bytes()) {
                    Some(bytes) if !is_whole(&bytes[64..1664]) => Err("half a record".into()),
                    _ => Ok(()),
                }
            })
            .unwrap()
    };
    let sound = run(is_whole);
    assert_eq!((sound.failures.len(), sound.complete), (0, false));
    let level = &sound.levels[0];
    assert!(level.verified == 2 && level.allowed.agrees_with(level.covered));
    let last_word_only = run(|bytes| bytes[1592..].iter().any(|byte| *byte != 0));
    assert_eq!(last_word_only.failures.len(), 1);
}

/// Words that are only checked for belonging to a record cost nothing.
#[test]
fn a_check_that_all_contents_pass_is_no_branch() {
    let (base, log) = record_of(64);
    let outcome = Exhaustive::new(Model::default())
        .run(&base, &log, |image: &ImageMedium, _: &Crash<'_>| {
            let harmless = |line: u64| image.verify(PoolOffset(line * 64), 64, |_| true);
            if (1..9).all(harmless) { Ok(()) } else { Err("damage".into()) }
        })
        .unwrap();
    assert_eq!((outcome.levels[0].verified, outcome.complete), (1, true));
}

#[test]
fn a_check_that_panics_on_a_content_is_a_failure_with_that_content() {
    let (base, log) = record_of(8);
    let verify = |image: &ImageMedium, _: &Crash<'_>| {
        image.verify(PoolOffset(64), 64, |bytes| {
            assert!(bytes[0] == 0 || bytes[8] != 0, "the second word is missing");
            true
        });
        Ok(())
    };
    let settings = Exhaustive::new(Model::default());
    let outcome = settings.run(&base, &log, verify).unwrap();
    assert_eq!(outcome.failures[0].violation.broken, Broken::Panicked);
    assert_accepted(&settings, &log, &outcome.failures[0], verify);
}
