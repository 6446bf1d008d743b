// SPDX-License-Identifier: Apache-2.0
//! The digits model of the checkout, compared to ONNX Runtime's stored scores; objects, errors, threads, queued runs.
use quarry::*;
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

fn model_path() -> PathBuf {
    root().join("models/digits/digits.onnx")
}

/// The data of a .npy file that train.py wrote.
fn npy(name: &str) -> Vec<u8> {
    let file = std::fs::read(root().join("models/digits").join(name)).unwrap();
    file[10 + usize::from(u16::from_le_bytes([file[8], file[9]]))..].to_vec()
}

fn images() -> Vec<Vec<f32>> {
    npy("test_images.npy").chunks(64).map(|image| image.iter().map(|pixel| f32::from(*pixel) / 255.0).collect()).collect()
}

fn expected() -> Vec<Vec<f32>> {
    let scores: Vec<f32> = npy("ort_scores.npy").chunks(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
    scores.chunks(10).map(<[f32]>::to_vec).collect()
}

fn best(scores: &[f32]) -> usize {
    (0..scores.len()).max_by(|a, b| scores[*a].total_cmp(&scores[*b])).unwrap()
}

fn session() -> Session<'static> {
    let runtime = Runtime::new().unwrap();
    let options = Options::new(&runtime).unwrap().with("threads", "1").unwrap().with("queue_depth", "4").unwrap();
    // Runtime and model are dropped here: the session holds what it needs.
    Session::new(&Model::open(&runtime, model_path(), None).unwrap(), Some(&options)).unwrap()
}

fn tensor(image: &[f32]) -> TensorRef<'_> {
    TensorRef::new(&[1, 1, 8, 8], image).unwrap()
}

#[test]
fn digits_are_read_as_onnx_runtime_reads_them() {
    let (mut session, labels) = (session(), npy("test_labels.npy"));
    let mut right = 0;
    for ((image, scores), label) in images().iter().zip(expected()).zip(&labels) {
        let outputs = session.run(&[tensor(image)]).unwrap();
        assert_eq!((outputs.len(), outputs.shape(0), outputs.dtype(0)), (1, vec![1, 10], DType::F32));
        let found: &[f32] = outputs.data(0).unwrap();
        assert!(found.iter().zip(&scores).all(|(a, b)| (a - b).abs() < 1e-4));
        right += usize::from(best(found) == usize::from(*label));
    }
    assert!(right * 100 >= labels.len() * 97, "{right} of {}", labels.len());
}

#[test]
fn outputs_go_where_the_caller_says() {
    let (mut session, image) = (session(), &images()[3]);
    let wanted = session.run(&[tensor(image)]).unwrap().data::<f32>(0).unwrap().to_vec();
    let mut room = [9.0f32; 12];
    let mut outputs = [TensorMut::new(&mut room)];
    session.run_into(&[tensor(image)], &mut outputs, RunOptions::default()).unwrap();
    assert_eq!((outputs[0].shape(), outputs[0].dtype(), outputs[0].size_bytes()), (vec![1, 10], DType::F32, 40));
    assert_eq!((&room[..10], &room[10..]), (&wanted[..], &[9.0, 9.0][..]));
    let mut small = [0.0f32; 9];
    let error = session.run_into(&[tensor(image)], &mut [TensorMut::new(&mut small)], RunOptions::default()).unwrap_err();
    assert_eq!(error.code(), Code::OutOfRange);
}

#[test]
fn room_of_another_type_is_refused_before_anything_is_written() {
    let (mut session, image) = (session(), &images()[3]);
    let (mut words, mut halves, mut wide) = ([7i32; 10], [F16(7); 20], [7.0f64; 10]);
    for (mut room, name) in [(TensorMut::new(&mut words), "i32"), (TensorMut::new(&mut halves), "f16"), (TensorMut::new(&mut wide), "f64")] {
        let error = session.run_into(&[tensor(image)], std::slice::from_mut(&mut room), RunOptions::default()).unwrap_err();
        assert!(error.code() == Code::InvalidArgument && error.message().contains(name) && error.message().contains("f32"), "{error}");
    }
    assert_eq!((words, halves, wide), ([7; 10], [F16(7); 20], [7.0; 10]));
    let refused = session
        .submit(vec![OwnedTensor::new(&[1, 1, 8, 8], image).unwrap()], vec![OwnedTensor::zeros(DType::I32, &[1, 10]).unwrap()], None)
        .err()
        .unwrap();
    assert!(refused.error.message().contains("i32") && refused.inputs.len() == 1 && refused.outputs.len() == 1);
    // Bytes take every type, and room that a run has left smaller is whole for the next.
    let mut bytes = [0u8; 48];
    let mut room = [TensorMut::from_bytes(&mut bytes)];
    for _ in 0..2 {
        session.run_into(&[tensor(image)], &mut room, RunOptions::default()).unwrap();
        assert_eq!((room[0].dtype(), room[0].size_bytes()), (DType::F32, 40));
    }
    assert_eq!(bytes[..40], *session.run(&[tensor(image)]).unwrap().bytes(0));
}

#[test]
fn outputs_are_read_by_other_threads() {
    let (mut session, image) = (session(), &images()[3]);
    let outputs = session.run(&[tensor(image)]).unwrap();
    let read = |outputs: Outputs<'_>| outputs.data::<f32>(0).unwrap().to_vec();
    let found = std::thread::scope(|scope| {
        let threads = [scope.spawn(move || read(outputs)), scope.spawn(|| read(outputs))];
        threads.map(|thread| thread.join().unwrap())
    });
    assert_eq!((&found[0], &found[1]), (&read(outputs), &read(outputs)));
}

#[test]
fn errors_have_id_and_hint() {
    let runtime = Runtime::new().unwrap();
    let error = Options::new(&runtime).unwrap().with("treads", "1").unwrap_err();
    assert_eq!((error.code(), error.id()), (Code::NotFound, "QR-C0101"));
    assert!(error.message().contains("threads") && !error.hint().is_empty() && error.to_string().starts_with("QR-C0101: "));
    assert_eq!(Model::open(&runtime, "/none.onnx", None).unwrap_err().code(), Code::NotFound);
    let mut session = session();
    let error = session.run(&[TensorRef::new(&[1, 64], &[0.0f32; 64]).unwrap()]).err().unwrap();
    assert!(error.id() == "QR-R0003" && error.message().contains("[1,1,8,8]"), "{error}");
    assert_eq!(session.run(&[]).err().unwrap().code(), Code::InvalidArgument);
    assert!(session.run(&[tensor(&images()[0])]).unwrap().data::<i32>(0).is_err());
}

#[test]
fn data_and_shape_belong_together() {
    assert!(TensorRef::new(&[2, 3], &[0.0f32; 5]).is_err());
    assert!(TensorRef::new(&[usize::MAX, 16], &[0.0f32; 5]).is_err());
    assert!(TensorRef::new(&[1; 9], &[0.0f32]).is_err());
    assert!(TensorRef::from_bytes(DType::I4, &[3], &[0, 0]).is_ok());
    assert!(TensorRef::new(&[], &[1.0f32]).is_ok() && TensorRef::new::<f32>(&[0, 4], &[]).is_ok());
}

#[test]
fn models_are_compiled_inspected_and_opened_from_memory() {
    let runtime = Runtime::new().unwrap();
    let data = std::fs::read(model_path()).unwrap();
    let model = Model::from_memory(&runtime, &data, None).unwrap();
    assert_eq!(model.inputs().unwrap()[0].shape, [Some(1), Some(1), Some(8), Some(8)]);
    assert_eq!((&*model.outputs().unwrap()[0].name, model.dim_name(0, 0).unwrap()), ("scores", String::new()));
    let path = std::env::temp_dir().join(format!("quarry-rust-{}.qrm", std::process::id()));
    let (mut steps, mut profile) = (0, Profile::new(&runtime).unwrap());
    model.compile(&path, None, Call::new().profile(&mut profile).progress(&mut |_, _, _| {
        steps += 1;
        ControlFlow::Continue(())
    }))
    .unwrap();
    assert!(steps > 0 && profile.events().unwrap().iter().any(|event| event.kind == "compile"));
    let compiled = Model::open(&runtime, &path, None).unwrap();
    compiled.verify().unwrap();
    assert_eq!(compiled.compatibility(None).unwrap().0, Compatibility::Optimal);
    assert!(compiled.inspect().unwrap().contains("\"contexts\"") && model.check(None, Call::new()).unwrap().contains("\"refused\":"));
    assert!(Session::plan(&compiled, None).unwrap().weights_bytes > 100_000);
    Session::new(&compiled, None).unwrap().run(&[tensor(&images()[0])]).unwrap();
    std::fs::remove_file(&path).unwrap();
    // A panic stops the call: there is one, and no file.
    let (mut calls, signal) = (0, Signal::new(&runtime).unwrap());
    for given in [None, Some(&signal)] {
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let call = given.map_or_else(Call::new, |signal| Call::new().signal(signal));
            model.compile(
                &path,
                None,
                call.progress(&mut |_, _, _| {
                    calls += 1;
                    panic!("told")
                }),
            )
        }));
        assert_eq!(panicked.unwrap_err().downcast_ref(), Some(&"told"));
        assert!(!path.exists());
    }
    assert_eq!(calls, 2);
    // So does one that breaks; the signal is not touched.
    let stopped = model.compile(&path, None, Call::new().signal(&signal).progress(&mut |_, _, _| ControlFlow::Break(()))).unwrap_err();
    assert_eq!((stopped.code(), stopped.id()), (Code::Cancelled, "QR-C0013"));
    assert!(!path.exists());
    model.compile(&path, None, Call::new().signal(&signal)).unwrap();
    std::fs::remove_file(&path).unwrap();
}

struct Taken<'a> {
    files: &'a mut Vec<(String, Vec<u8>)>,
    ends: &'a mut Vec<bool>,
    fails: &'static str,
}

impl Files for Taken<'_> {
    fn begin(&mut self, name: &str, _: u64, _: u64) -> std::io::Result<()> {
        self.files.push((name.into(), Vec::new()));
        Ok(())
    }
    fn write(&mut self, data: &[u8]) -> std::io::Result<()> {
        match self.fails {
            "panic" => panic!("written"),
            "full" => return Err(std::io::Error::from_raw_os_error(28)),
            _ => self.files.last_mut().unwrap().1.extend_from_slice(data),
        }
        Ok(())
    }
    fn end(&mut self, committed: bool) -> std::io::Result<()> {
        self.ends.push(committed);
        Ok(())
    }
}

#[test]
fn calls_write_everywhere() {
    let runtime = Runtime::new().unwrap();
    let model = Model::open(&runtime, model_path(), None).unwrap();
    let path = std::env::temp_dir().join(format!("quarry-rust-target-{}.qrm", std::process::id()));
    model.compile(&path, None, Call::new()).unwrap();
    let expected = std::fs::read(&path).unwrap();
    let (mut memory, mut written) = (vec![1], Vec::new());
    model.compile_to(Target::memory(&mut memory), None, Call::new()).unwrap();
    model.compile_to(Target::writer(&mut written), None, Call::new()).unwrap();
    let file = std::fs::File::create(&path).unwrap();
    model.compile_to(Target::descriptor(file.as_fd()), None, Call::new()).unwrap();
    assert!(memory == expected && written == expected && std::fs::read(&path).unwrap() == expected);
    std::fs::remove_file(&path).unwrap();
    // Several files, and what was external data by name.
    let (mut files, mut ends) = (Vec::new(), Vec::new());
    let target = Target::files(Taken { files: &mut files, ends: &mut ends, fails: "" }).name("d.onnx.data");
    model.export_to(target, None, Call::new()).unwrap();
    assert_eq!((&*files[0].0, &*files[1].0, &ends[..]), ("d.onnx.data", "d.onnx", &[true][..]));
    let (constants, graph) = (&files[0].1, &files[1].1);
    let there = Source::memory(graph).external(|name| {
        assert_eq!(name, "d.onnx.data");
        Ok(std::io::Cursor::new(constants))
    });
    let there = Model::open_with(&runtime, there, None, Call::new()).unwrap();
    Session::new(&there, None).unwrap().run(&[tensor(&images()[0])]).unwrap();
    let missing = Source::memory(graph).external(|_| -> std::io::Result<std::io::Empty> { Err(std::io::ErrorKind::NotFound.into()) });
    assert_eq!(Model::open_with(&runtime, missing, None, Call::new()).unwrap().verify().unwrap_err().code(), Code::NotFound);
    assert!(model.export_to(Target::writer(std::io::sink()).name("d.onnx.data"), None, Call::new()).is_err());
    // What goes wrong.
    let (mut files, mut ends) = (Vec::new(), Vec::new());
    let full = model.compile_to(Target::files(Taken { files: &mut files, ends: &mut ends, fails: "full" }), None, Call::new());
    assert_eq!((full.unwrap_err().code(), &ends[..]), (Code::ResourceExhausted, &[false][..]));
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        model.compile_to(Target::files(Taken { files: &mut files, ends: &mut ends, fails: "panic" }), None, Call::new())
    }));
    assert_eq!((panicked.unwrap_err().downcast_ref(), &ends[..]), (Some(&"written"), &[false, false][..]));
}

#[test]
fn signals_and_profiles() {
    let runtime = Runtime::new().unwrap();
    let mut session = Session::new(&Model::open(&runtime, model_path(), None).unwrap(), None).unwrap();
    let (signal, mut profile, image) = (Signal::new(&runtime).unwrap(), Profile::new(&runtime).unwrap(), &images()[0]);
    signal.abort();
    let cancelled = session.run_with(&[tensor(image)], RunOptions { signal: Some(&signal), profile: None }).err().unwrap();
    assert_eq!(cancelled.code(), Code::Cancelled);
    signal.reset();
    signal.set_timeout(Some(Duration::ZERO));
    let passed = session.run_with(&[tensor(image)], RunOptions { signal: Some(&signal), profile: None }).err().unwrap();
    assert_eq!(passed.code(), Code::DeadlineExceeded);
    signal.set_timeout(Some(Duration::MAX));
    session.run_with(&[tensor(image)], RunOptions { signal: Some(&signal), profile: None }).unwrap();
    signal.set_timeout(Some(Duration::from_secs(100)));
    assert!(signal.fd().is_ok());
    session.run_with(&[tensor(image)], RunOptions { signal: Some(&signal), profile: Some(&mut profile) }).unwrap();
    let events = profile.events().unwrap();
    assert!(events.iter().any(|event| event.name == "conv1" && event.end >= event.begin) && profile.lost() == 0);
    assert!(profile.export("csv").unwrap().contains("conv1"));
    profile.clear();
    assert!(profile.is_empty());
}

#[test]
fn every_thread_has_a_clone() {
    let (mut session, images) = (session(), Arc::new(images()));
    let expected = expected();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let (mut own, images, expected) = (session.try_clone().unwrap(), images.clone(), &expected);
            scope.spawn(move || {
                for (image, scores) in images.iter().zip(expected).take(50) {
                    assert_eq!(best(own.run(&[tensor(image)]).unwrap().data(0).unwrap()), best(scores));
                }
            });
        }
    });
    fn is_send_and_sync<T: Send + Sync>() {}
    is_send_and_sync::<Runtime>();
    is_send_and_sync::<Options>();
    is_send_and_sync::<Model>();
    is_send_and_sync::<Session>();
    is_send_and_sync::<Signal>();
    is_send_and_sync::<Memory>();
    is_send_and_sync::<Error>();
    is_send_and_sync::<Outputs>();
    is_send_and_sync::<TensorRef>();
    is_send_and_sync::<TensorMut>();
    fn is_send<T: Send>() {}
    is_send::<Profile>();
    is_send::<Run>();
}

#[test]
fn runs_are_queued() {
    let (session, images, expected) = (session(), images(), expected());
    let submit = |i: usize| {
        let input = OwnedTensor::new(&[1, 1, 8, 8], &images[i]).unwrap();
        session.submit(vec![input], vec![OwnedTensor::zeros(DType::F32, &[1, 10]).unwrap()], None)
    };
    let runs: Vec<_> = (0..4).map(|i| submit(i).unwrap_or_else(|refused| panic!("{}", refused.error))).collect();
    for (run, scores) in runs.into_iter().zip(&expected) {
        let (inputs, outputs) = run.wait().unwrap();
        assert_eq!((inputs[0].shape(), outputs[0].shape()), (&[1, 1, 8, 8][..], &[1, 10][..]));
        assert_eq!(best(outputs[0].data().unwrap()), best(scores));
    }
    drop(submit(0).ok().unwrap()); // waits
    std::mem::forget(submit(0).ok().unwrap()); // its tensors stay
    let refused = session.submit(vec![OwnedTensor::zeros(DType::F32, &[3]).unwrap()], vec![], None).err().unwrap();
    assert_eq!((refused.error.code(), refused.inputs.len(), refused.outputs.len()), (Code::InvalidArgument, 1, 0));
}

/// What the smallest executor is: a thread that sleeps until it is woken.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Wakes(std::thread::Thread);
    impl std::task::Wake for Wakes {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = std::task::Waker::from(std::sync::Arc::new(Wakes(std::thread::current())));
    let (mut future, mut context) = (std::pin::pin!(future), std::task::Context::from_waker(&waker));
    loop {
        match future.as_mut().poll(&mut context) {
            std::task::Poll::Ready(output) => return output,
            std::task::Poll::Pending => std::thread::park(),
        }
    }
}

#[test]
fn queued_runs_are_futures() {
    let (session, images, expected) = (session(), images(), expected());
    let submit = |i: usize| {
        let input = OwnedTensor::new(&[1, 1, 8, 8], &images[i]).unwrap();
        session.submit(vec![input], vec![OwnedTensor::zeros(DType::F32, &[1, 10]).unwrap()], None).unwrap_or_else(|refused| panic!("{}", refused.error))
    };
    for first in (0..40).step_by(2) {
        // Two under way, awaited in the order that they do not end in.
        let found = block_on(async {
            let (one, other) = (submit(first), submit(first + 1));
            let other = other.await.unwrap();
            (one.await.unwrap(), other)
        });
        assert_eq!(best(found.0.1[0].data().unwrap()), best(&expected[first]));
        assert_eq!(best(found.1.1[0].data().unwrap()), best(&expected[first + 1]));
    }
    // One that is polled, then dropped; one that is aborted ends one way or the other.
    let mut dropped = submit(0);
    let _ = std::pin::Pin::new(&mut dropped).poll(&mut std::task::Context::from_waker(std::task::Waker::noop()));
    drop(dropped);
    let aborted = submit(1);
    aborted.abort();
    if let Err(error) = block_on(aborted) {
        assert_eq!(error.code(), Code::Cancelled);
    }
}

#[test]
fn memory_of_the_device() {
    let mut session = session();
    let image = &images()[2];
    let bytes: Vec<u8> = image.iter().flat_map(|value| value.to_le_bytes()).collect();
    let mut given = Memory::allocate(&session, 256, Access::Both).unwrap();
    let mut found = Memory::allocate(&session, 4096, Access::Both).unwrap();
    given.write(0, &bytes).unwrap();
    let input = TensorRef::in_memory(DType::F32, &[1, 1, 8, 8], &given, 0).unwrap();
    session.run_into(&[input], &mut [TensorMut::in_memory(&mut found, 64)], RunOptions::default()).unwrap();
    let mut scores = [0u8; 40];
    found.read(64, &mut scores).unwrap();
    assert_eq!(scores[..], *session.run(&[tensor(image)]).unwrap().bytes(0));
    assert!(found.read(4090, &mut scores).is_err() && TensorRef::in_memory(DType::F32, &[65], &given, 0).is_err());
    let mut own = bytes.clone();
    let registered = Memory::register(&session, &mut own, Access::Read).unwrap();
    let input = TensorRef::in_memory(DType::F32, &[1, 1, 8, 8], &registered, 0).unwrap();
    assert_eq!(scores[..], *session.run(&[input]).unwrap().bytes(0));
}

#[test]
fn memory_before_there_is_a_session() {
    let runtime = Runtime::new().unwrap();
    let cpu = MemoryDevice { runtime: &runtime, backend: "cpu", device: 0 };
    let mut made = Memory::allocate_on(cpu, 256, Access::Both).unwrap();
    let (mut own, image) = ([0u8; 4096], &images()[2]);
    assert_eq!(Memory::register_on(cpu, &mut own, Access::Both).unwrap().size(), 4096);
    made.write(0, &image.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>()).unwrap();
    let mut session = Session::new(&Model::open(&runtime, model_path(), None).unwrap(), None).unwrap();
    let found = session.run(&[TensorRef::in_memory(DType::F32, &[1, 1, 8, 8], &made, 0).unwrap()]).unwrap().bytes(0).to_vec();
    assert_eq!(found, session.run(&[tensor(image)]).unwrap().bytes(0));
    assert!(Memory::allocate_on(MemoryDevice { backend: "no such", ..cpu }, 256, Access::Both).is_err());
}

#[test]
fn models_from_everywhere_and_what_they_say() {
    let runtime = Runtime::new().unwrap();
    let path = root().join("models/facts.onnx");
    let (data, mut file) = (std::fs::read(&path).unwrap(), std::fs::File::open(&path).unwrap());
    let folder = std::fs::File::open(root().join("models")).unwrap();
    let sources = [
        Source::path(&path),
        Source::memory(&data).folder(folder.as_fd()),
        Source::descriptor(folder_file(&path).as_fd(), 0, 0),
        Source::reader(&mut file).unwrap(),
    ];
    for source in sources {
        let model = Model::open_with(&runtime, source, None, Call::new()).unwrap();
        assert_eq!((model.output_dim_name(0, 1).unwrap(), model.output_dim_name(0, 0).unwrap()), ("columns".into(), String::new()));
        assert_eq!(model.properties().unwrap(), [("colour".to_string(), "blue".to_string())]);
    }
    let denied = Source::by(data.len() as u64, |_, _| Err(std::io::Error::from_raw_os_error(13)));
    assert_eq!(Model::open_with(&runtime, denied, None, Call::new()).unwrap_err().code(), Code::PermissionDenied);
    let panics = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        Model::open_with(&runtime, Source::by(data.len() as u64, |_, _| panic!("read")), None, Call::new()).map(drop)
    }));
    assert_eq!(panics.unwrap_err().downcast_ref(), Some(&"read"));

    let options = Options::new(&runtime).unwrap().with("shape", "columns=3").unwrap().with("shape", "columns=5").unwrap();
    let session = Session::new(&Model::open(&runtime, &path, None).unwrap(), Some(&options)).unwrap();
    let buckets = session.buckets().unwrap();
    assert_eq!((&buckets[0].inputs[0].shape[..], &buckets[1].outputs[0].shape[..]), (&[Some(2), Some(3)][..], &[Some(2), Some(5)][..]));
    let per_channel = Quantization::PerChannel { axis: 0, scales: vec![0.5, 0.25], zero_points: vec![3, 5] };
    assert_eq!((session.outputs().unwrap()[0].quantization.clone(), &session.inputs().unwrap()[0].quantization), (Some(per_channel), &None));
}

fn folder_file(path: &std::path::Path) -> &'static std::fs::File {
    Box::leak(Box::new(std::fs::File::open(path).unwrap()))
}

#[test]
fn sets_of_options_are_listed_taken_back_and_copied() {
    let runtime = Runtime::new().unwrap();
    let mut options = Options::new(&runtime).unwrap().with("threads", "3").unwrap().with("backend", "cpu").unwrap();
    let copy = options.try_clone().unwrap();
    options.unset("threads").unwrap();
    let pair = |key: &str, value: &str| (key.to_string(), value.to_string());
    assert_eq!((options.list().unwrap(), copy.list().unwrap()), (vec![pair("backend", "cpu")], vec![pair("backend", "cpu"), pair("threads", "3")]));
    assert_eq!(options.unset("thread").unwrap_err().code(), Code::NotFound);
}

#[test]
fn a_signal_ends_every_call_that_may_take_long() {
    let runtime = Runtime::new().unwrap();
    let (mut session, model, signal) = (session(), Model::open(&runtime, model_path(), None).unwrap(), Signal::new(&runtime).unwrap());
    let path = std::env::temp_dir().join(format!("quarry-rust-signal-{}.qrm", std::process::id()));
    model.compile(&path, None, Call::new()).unwrap();
    let compiled = Model::open(&runtime, &path, None).unwrap();
    std::fs::remove_file(&path).unwrap();
    signal.abort();
    let call = || Call::new().signal(&signal);
    let ended = [
        Model::open_with(&runtime, Source::path(&model_path()), None, call()).map(drop),
        model.verify_with(call()),
        compiled.inspect_with(call()).map(drop),
        compiled.compatibility_with(None, call()).map(drop),
        Session::plan_with(&model, None, call()).map(drop),
        session.try_clone_with(call()).map(drop),
        session.recover_with(call()),
    ];
    for (index, result) in ended.into_iter().enumerate() {
        assert_eq!(result.unwrap_err().code(), Code::Cancelled, "{index}");
    }
}

#[test]
fn a_waiting_that_ends_leaves_the_run_its_tensors() {
    let (session, image, runtime) = (session(), &images()[4], Runtime::new().unwrap());
    let signal = Signal::new(&runtime).unwrap();
    signal.abort();
    let submit = || {
        let room = vec![OwnedTensor::zeros(DType::F32, &[1, 10]).unwrap()];
        session.submit(vec![OwnedTensor::new(&[1, 1, 8, 8], image).unwrap()], room, None).ok().unwrap()
    };
    let outputs = match submit().wait_with(&signal) {
        Waited::Running(run, error) => {
            assert_eq!(error.id(), "QR-R0019");
            run.wait()
        }
        Waited::Ended(result) => result, // it was quick
    };
    assert_eq!(best(outputs.unwrap().1[0].data().unwrap()), best(&expected()[4]));
    signal.reset();
    let Waited::Ended(Ok(_)) = submit().wait_with(&signal) else { panic!("no signal ended it") };
}

static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

#[test]
fn runtimes_tell_what_there_is() {
    let mut runtime = Runtime::builder().log(LogLevel::Debug, |line| LINES.lock().unwrap().push(format!("{}: {}", line.topic, line.message))).build().unwrap();
    let backends = runtime.backends().unwrap();
    assert!(backends.iter().any(|backend| backend.id == "cpu" && backend.usable && backend.devices[0].usable));
    assert!(runtime.options().unwrap().iter().any(|row| row.key == "threads"));
    assert!(runtime.operators("cpu").unwrap().contains("Conv") && !runtime.cpu_features().is_empty());
    Session::new(&Model::open(&runtime, model_path(), None).unwrap(), None).unwrap();
    assert!(!LINES.lock().unwrap().is_empty());
    assert!(!version().is_empty());
    assert_eq!(abi_version().0, 0);
}

#[cfg(feature = "ndarray")]
#[test]
fn arrays_of_ndarray() {
    use ndarray::{Array4, s};
    let (mut session, image) = (session(), Array4::from_shape_vec((1, 1, 8, 8), images()[1].clone()).unwrap());
    let outputs = session.run(&[TensorRef::from_array(&image).unwrap()]).unwrap();
    assert_eq!(outputs.array::<f32>(0).unwrap().shape(), [1, 10]);
    assert!(TensorRef::from_array(&image.slice(s![.., .., .., ..;2])).is_err());
}
