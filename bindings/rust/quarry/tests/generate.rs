// SPDX-License-Identifier: Apache-2.0
//! A small Llama goes on with a story (feature `generate`): what is expected is ONNX Runtime's.
#![cfg(feature = "generate")]
use quarry::*;
use std::ops::ControlFlow;
use std::time::Duration;

const PROMPT: [i64; 10] = [1, 3, 34, 9, 22, 4, 3, 18, 20, 7];
const STORY: [i64; 24] = [9, 3, 5, 3, 6, 10, 16, 4, 25, 3, 6, 8, 4, 13, 4, 3, 17, 5, 12, 3, 5, 3, 14, 10];

/// None: the model is not there.
fn session(capacity: &str) -> Option<Session<'static>> {
    let path = std::path::PathBuf::from(std::env::var_os("QUARRY_SHARED")?).join("models/babyllama105_kv_f32/model.onnx");
    if !path.exists() {
        eprintln!("there is no {}", path.display());
        return None;
    }
    let runtime = Runtime::new().unwrap();
    let options = Options::new(&runtime).unwrap().with("threads", "1").unwrap().with("state", "auto").unwrap().with("state.capacity", capacity).unwrap();
    Some(Session::new(&Model::open(&runtime, path, Some(&options)).unwrap(), Some(&options)).unwrap())
}

fn start<'d>(session: &mut Session<'d>, options: &GeneratorOptions) -> Generator<'d> {
    let mut generator = Generator::new(session, options).unwrap();
    generator.prompt(&PROMPT, RunOptions::default()).unwrap();
    generator
}

fn on(_: i64) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

#[test]
fn tokens() {
    let Some(mut session) = session("2048") else { return };
    let mut generator = start(&mut session, &GeneratorOptions { max_new_tokens: 24, ..Default::default() });
    let mut found = Vec::new();
    let outcome = generator.run(RunOptions::default(), |token| {
        found.push(token);
        ControlFlow::Continue(())
    });
    assert_eq!((outcome.unwrap(), found.as_slice()), ((24, End::Length), &STORY[..]));
    let has = generator.sequence().unwrap();
    assert_eq!((has.tokens, has.run, has.vocabulary), ([&PROMPT[..], &STORY[..]].concat(), 33, 105));
    generator.prompt(&PROMPT, RunOptions::default()).unwrap();
    assert_eq!(generator.sequence().unwrap().reused, 9);
    let logits = generator.logits(RunOptions::default()).unwrap();
    let best = (0..logits.len()).max_by(|a, b| logits[*a].total_cmp(&logits[*b])).unwrap();
    assert_eq!((logits.len(), best as i64), (105, STORY[0]));
    generator.accept(STORY[0]).unwrap();
    assert_eq!(generator.step(RunOptions::default()).unwrap(), (Some(STORY[1]), None));
    assert_eq!(generator.rewind(99).unwrap_err().code(), Code::OutOfRange);
    // A beginning that was saved is not run again.
    generator.rewind(10).unwrap();
    let mut saved = Vec::new();
    generator.state().unwrap().save(Target::memory(&mut saved), Call::new()).unwrap();
    let mut other = Generator::new(&mut session, &GeneratorOptions { max_new_tokens: 2, ..Default::default() }).unwrap();
    other.state().unwrap().load(&saved).unwrap();
    other.restore(&PROMPT).unwrap();
    other.run(RunOptions::default(), on).unwrap();
    assert_eq!(other.sequence().unwrap().tokens[10..], STORY[..2]);
}

#[test]
fn reasons_to_end() {
    let Some(mut all) = session("2048") else { return };
    let mut generator = start(&mut all, &GeneratorOptions { stop_tokens: vec![77, STORY[5]], ..Default::default() });
    assert_eq!(generator.run(RunOptions::default(), on).unwrap(), (6, End::StopToken));
    assert_eq!(generator.run(RunOptions::default(), |_| ControlFlow::Break(())).unwrap(), (1, End::Callback));
    let signal = Signal::new(&Runtime::new().unwrap()).unwrap();
    signal.abort();
    assert_eq!(generator.run(RunOptions { signal: Some(&signal), profile: None }, on).unwrap(), (0, End::Aborted));
    let late = Signal::new(&Runtime::new().unwrap()).unwrap();
    late.set_timeout(Some(Duration::ZERO));
    assert_eq!(generator.run(RunOptions { signal: Some(&late), profile: None }, on).unwrap(), (0, End::Deadline));
    // The time is of all tokens together, each of which takes far less.
    let brief = Signal::new(&Runtime::new().unwrap()).unwrap();
    brief.set_timeout(Some(Duration::from_millis(300)));
    let mut slow = 0;
    let (count, end) = generator
        .run(RunOptions { signal: Some(&brief), profile: None }, |_| {
            std::thread::sleep(Duration::from_millis(20));
            slow += 1;
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(end, End::Deadline);
    assert!(count == slow && (1..=15).contains(&count), "{count} tokens");
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| generator.run(RunOptions::default(), |_| panic!("of the caller"))));
    assert!(panicked.is_err());
    let mut small = session("14").unwrap();
    assert_eq!(start(&mut small, &GeneratorOptions::default()).run(RunOptions::default(), on).unwrap(), (5, End::Capacity));
    let drawn = GeneratorOptions { temperature: 1.5, top_k: 50, seed: 3, max_new_tokens: 12, ..Default::default() };
    let [one, other] = [(), ()].map(|()| {
        let mut generator = start(&mut all, &drawn);
        generator.run(RunOptions::default(), on).unwrap();
        generator.sequence().unwrap().tokens
    });
    assert_eq!(one, other);
}

#[test]
fn what_is_no_decoder_is_refused() {
    let runtime = Runtime::new().unwrap();
    let digits = std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../models/digits/digits.onnx");
    let mut session = Session::new(&Model::open(&runtime, digits, None).unwrap(), None).unwrap();
    assert_eq!(Generator::new(&mut session, &GeneratorOptions::default()).unwrap_err().id(), "QR-R0032");
}
