// SPDX-License-Identifier: Apache-2.0
//! A state that grows: present = past and x behind it, y its sum.
use quarry::*;

fn session(options: &[(&str, &str)]) -> Result<Session<'static>> {
    let runtime = Runtime::new()?;
    let path = std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../models/cache.onnx");
    let mut given = Options::new(&runtime)?.with("threads", "1")?;
    for (key, value) in options {
        given = given.with(key, value)?;
    }
    Session::new(&Model::open(&runtime, path, None)?, Some(&given))
}
const KEPT: &[(&str, &str)] = &[("state", "past:present"), ("state.capacity", "4")];

fn add(session: &mut Session<'_>, x: [f32; 2]) -> Result<Vec<f32>> {
    Ok(session.run(&[TensorRef::new(&[1, 1, 2], &x)?])?.data(0)?.to_vec())
}

#[test]
fn a_window_slides_over_a_state() {
    let options = [KEPT, &[("state.window", "1"), ("state.sink", "1")]].concat();
    let mut session = session(&options).unwrap();
    for _ in 0..9 {
        add(&mut session, [1.0, 2.0]).unwrap();
    }
    assert_eq!(add(&mut session, [5.0, 5.0]).unwrap(), [7.0, 9.0]); // the first and the last before it
    let mut state = session.state().unwrap();
    assert_eq!((state.length().unwrap(), state.dropped().unwrap()), (2, 8));
}

#[test]
fn a_state_grows_and_is_rewound_and_forked() {
    let mut session = session(KEPT).unwrap();
    assert_eq!((session.inputs().unwrap().len(), session.outputs().unwrap().len()), (1, 1));
    assert_eq!(add(&mut session, [1.0, 2.0]).unwrap(), [1.0, 2.0]);
    assert_eq!(add(&mut session, [3.0, 4.0]).unwrap(), [4.0, 6.0]);
    let mut state = session.state().unwrap();
    assert_eq!(state.length().unwrap(), 2);
    let pair = &state.tensors().unwrap()[0];
    assert_eq!((pair.input.as_str(), pair.output.as_str(), pair.axis, pair.dtype), ("past", "present", Some(1), DType::F32));
    assert_eq!((pair.shape.as_slice(), pair.capacity), (&[Some(1), Some(2), Some(2)][..], 4));

    let fork = state.fork().unwrap();
    state.rewind(1).unwrap();
    assert_eq!(add(&mut session, [10.0, 10.0]).unwrap(), [11.0, 12.0]);
    session.set_state(&fork).unwrap();
    assert_eq!(add(&mut session, [10.0, 10.0]).unwrap(), [14.0, 16.0]);
    drop(state);
    session.state().unwrap().reset().unwrap();
    assert_eq!(add(&mut session, [5.0, 5.0]).unwrap(), [5.0, 5.0]);
}

#[test]
fn a_state_is_saved_loaded_read_and_written() {
    let mut first = session(KEPT).unwrap();
    add(&mut first, [1.0, 2.0]).unwrap();
    let mut saved = Vec::new();
    first.state().unwrap().save(Target::memory(&mut saved), Call::new()).unwrap();
    let mut second = session(KEPT).unwrap();
    second.state().unwrap().load(&saved).unwrap();
    assert_eq!(add(&mut second, [3.0, 4.0]).unwrap(), [4.0, 6.0]);
    let mut state = second.state().unwrap();
    assert_eq!(state.read("past").unwrap().data::<f32>().unwrap(), [1.0, 2.0, 3.0, 4.0]);
    state.write("present", &TensorRef::new(&[1, 1, 2], &[7.0f32, 8.0]).unwrap()).unwrap();
    assert_eq!(add(&mut second, [1.0, 1.0]).unwrap(), [8.0, 9.0]);

    saved[20] ^= 1;
    let error = state.load(&saved).unwrap_err();
    assert_eq!(error.code(), Code::Corrupt, "{error}");
    let error = state.read("future").unwrap_err();
    assert!(error.to_string().contains("'future'") && error.to_string().contains("'past'"), "{error}");
}

#[test]
fn what_a_state_refuses() {
    let error = session(&[("shape", "past=1,tokens=1")]).unwrap().state().unwrap_err();
    assert_eq!(error.code(), Code::FailedPrecondition, "{error}");
    let mut session = session(KEPT).unwrap();
    for _ in 0..4 {
        add(&mut session, [1.0, 1.0]).unwrap();
    }
    let full = add(&mut session, [1.0, 1.0]).unwrap_err();
    assert!(full.to_string().contains("state.capacity"), "{full}");
    let mut state = session.state().unwrap();
    assert_eq!(state.length().unwrap(), 4);
    assert_eq!(state.rewind(5).unwrap_err().code(), Code::OutOfRange);
}
