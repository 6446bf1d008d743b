// SPDX-License-Identifier: Apache-2.0
//! What somebody types who comes from another crate: names, other crates' types, errors as Rust has them.
use quarry::*;
use std::path::PathBuf;

fn model_path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../models/digits/digits.onnx")
}

fn session() -> Session<'static> {
    let runtime = Runtime::new().unwrap();
    Session::new(&Model::open(&runtime, model_path(), None).unwrap(), Some(&Options::new(&runtime).unwrap().with("threads", "1").unwrap())).unwrap()
}

const IMAGE: [f32; 64] = [0.5; 64];

fn wanted() -> Vec<f32> {
    session().run(&[TensorRef::new(&[1, 1, 8, 8], &IMAGE).unwrap()]).unwrap().data(0).unwrap().to_vec()
}

#[test]
fn inputs_and_outputs_by_name() {
    let (mut session, image) = (session(), TensorRef::new(&[1, 1, 8, 8], &IMAGE).unwrap());
    let outputs = session.run_named(&[("image", image)]).unwrap();
    assert_eq!(outputs.named::<f32>("scores").unwrap(), wanted());
    assert_eq!(outputs.index("scores").unwrap(), 0);
    assert_eq!(format!("{outputs:?}"), r#"{"scores": "f32 [1, 10]"}"#);
    assert!(outputs.named::<f32>("logits").unwrap_err().to_string().contains("scores"));
    for wrong in [&[][..], &[("picture", image)], &[("image", image), ("image", image)]] {
        let error = session.run_named(wrong).unwrap_err();
        assert!(error.to_string().contains("image") && error.code() == Code::InvalidArgument, "{error}");
    }
}

#[test]
fn errors_are_those_of_rust() {
    let runtime = Runtime::new().unwrap();
    let missing = Model::open(&runtime, "/none.onnx", None).err().unwrap();
    assert_eq!(std::io::Error::from(missing.clone()).kind(), std::io::ErrorKind::NotFound);
    let within = std::io::Error::from(missing);
    assert_eq!(within.get_ref().unwrap().downcast_ref::<Error>().unwrap().id(), "QR-F0001");
    let broken = std::env::temp_dir().join(format!("broken-{}.onnx", std::process::id()));
    std::fs::write(&broken, &std::fs::read(model_path()).unwrap()[..5000]).unwrap();
    let error = Model::open(&runtime, &broken, None).err().unwrap();
    std::fs::remove_file(&broken).unwrap();
    assert!(error.to_string().contains("broken-") && error.code() == Code::Corrupt, "{error}");
    // An operator that there is not, in place of one of the same length.
    let odd = std::env::temp_dir().join(format!("odd-{}.onnx", std::process::id()));
    let bytes = std::fs::read(model_path()).unwrap();
    let at = bytes.windows(7).position(|part| part == b"MaxPool").unwrap();
    std::fs::write(&odd, [&bytes[..at], b"NoSuchO", &bytes[at + 7..]].concat()).unwrap();
    let error = Model::open(&runtime, &odd, None).and_then(|model| Session::new(&model, None).map(drop)).unwrap_err();
    std::fs::remove_file(&odd).unwrap();
    assert!(error.to_string().contains("odd-") && error.to_string().contains("NoSuchO") && !error.hint().contains("qr_"), "{error}");
    assert_eq!(std::io::Error::from(error).kind(), std::io::ErrorKind::Unsupported);
    let signal = Signal::new(&runtime).unwrap();
    signal.abort();
    let mut session = session();
    let options = RunOptions { signal: Some(&signal), profile: None };
    let error = session.run_with(&[TensorRef::new(&[1, 1, 8, 8], &IMAGE).unwrap()], options).err().unwrap();
    assert!(error.hint().contains("Signal::reset"), "{error}");
}

#[test]
fn a_run_that_is_refused_is_an_error() -> std::result::Result<(), Box<dyn std::error::Error + Send + Sync>> {
    fn submit(session: &Session<'_>) -> std::result::Result<(), Box<dyn std::error::Error + Send + Sync>> {
        drop(session.submit(vec![], vec![OwnedTensor::zeros(DType::I8, &[1, 10])?], None)?);
        Ok(())
    }
    fn ours(session: &Session<'_>) -> Result<()> {
        drop(session.submit(vec![], vec![OwnedTensor::zeros(DType::I8, &[1, 10])?], None)?);
        Ok(())
    }
    let session = session();
    let error = submit(&session).unwrap_err();
    assert!(error.to_string().contains("i8") && error.source().unwrap().downcast_ref::<Error>().is_some(), "{error}");
    assert!(ours(&session).unwrap_err().message().contains("i8"));
    Ok(())
}

#[cfg(all(feature = "ndarray", feature = "ndarray_0_16"))]
#[test]
fn arrays_of_two_releases_of_ndarray() {
    let mut session = session();
    let new = ndarray::Array4::from_elem((1, 1, 8, 8), 0.5f32);
    let old = ndarray_0_16::Array4::from_elem((1, 1, 8, 8), 0.5f32);
    let outputs = session.run(&[(&new).try_into().unwrap()]).unwrap();
    assert_eq!(outputs.array::<f32>(0).unwrap().as_slice().unwrap(), wanted());
    let outputs = session.run(&[TensorRef::try_from(&old).unwrap()]).unwrap();
    assert_eq!(outputs.array_0_16::<f32>(0).unwrap().as_slice().unwrap(), wanted());
    assert!(TensorRef::try_from(&old.slice(ndarray_0_16::s![.., .., .., ..;2])).is_err());
}

#[cfg(feature = "half")]
#[test]
fn elements_of_half() {
    let data = [half::f16::from_f32(0.5), half::f16::from_f32(-2.0)];
    assert!(TensorRef::new(&[2], &data).is_ok() && <half::f16 as Element>::DTYPE == DType::F16);
    let owned = OwnedTensor::new(&[2], &[half::bf16::from_f32(3.0), half::bf16::ONE]).unwrap();
    assert_eq!((owned.dtype(), owned.data::<half::bf16>().unwrap()[0].to_f32()), (DType::BF16, 3.0));
    assert_eq!(owned.data::<BF16>().unwrap()[1].0, half::bf16::ONE.to_bits());
}

#[cfg(feature = "serde")]
#[test]
fn reports_are_structs() {
    let runtime = Runtime::new().unwrap();
    let model = Model::open(&runtime, model_path(), None).unwrap();
    let taken = model.check_report(None, Call::new()).unwrap();
    assert!(taken.backend == "cpu" && taken.refused == 0 && taken.supported == taken.nodes.len() as u64 && !taken.nodes[0].kernel.is_empty());
    // As a backend says that refuses.
    let text = r#"{"backend":"b","supported":0,"refused":1,"nodes":[{"name":"n","op":"Conv","supported":false,"reason":"r","id":"QR-B0002","hint":"h"}]}"#;
    let refused: CheckReport = serde_json::from_str(text).unwrap();
    assert!(refused.refused == 1 && refused.nodes[0].id == "QR-B0002" && refused.nodes[0].reason == "r");
    let report = session().session_report().unwrap();
    assert!(report.backend == "cpu" && report.threads == 1 && report.model.ends_with("digits.onnx"));
    let again: CheckReport = serde_json::from_str(&serde_json::to_string(&refused).unwrap()).unwrap();
    assert_eq!(again, refused);
}

#[test]
fn names_of_files_are_bytes() {
    use std::os::unix::ffi::OsStrExt;
    let name = |bytes: &[u8]| {
        let folder = std::env::temp_dir().join(format!("quarry-rust-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        folder.join(std::ffi::OsStr::from_bytes(bytes))
    };
    let (path, container, graph, table) = (name(b"caf\xe9.onnx"), name(b"caf\xe9.qrm"), name(b"\xe9.onnx"), name(b"\xe9.csv"));
    std::fs::copy(model_path(), &path).unwrap();
    let runtime = Runtime::builder().backend_path(name(b"\xe9")).build().unwrap();
    let model = Model::open(&runtime, &path, None).unwrap();
    model.compile(&container, None, Call::new()).unwrap();
    model.export_to(Target::path(&graph), None, Call::new()).unwrap();
    let mut profile = Profile::new(&runtime).unwrap();
    for file in [&path, &container, &graph] {
        let mut session = Session::new(&Model::open(&runtime, file, None).unwrap(), None).unwrap();
        let outputs = session.run_with(&[TensorRef::new(&[1, 1, 8, 8], &IMAGE).unwrap()], RunOptions { profile: Some(&mut profile), signal: None }).unwrap();
        assert_eq!(outputs.shape(0), [1, 10]);
    }
    profile.export_to("csv", Target::path(&table)).unwrap();
    assert!(std::fs::metadata(&table).unwrap().len() > 100);
    let (mut options, events) = (Options::new(&runtime).unwrap().with("profiling_level", "basic").unwrap(), name(b"o\xe9.csv"));
    options.set_path("profiling_file_path", &events).unwrap();
    let mut session = Session::new(&model, Some(&options)).unwrap();
    session.run(&[TensorRef::new(&[1, 1, 8, 8], &IMAGE).unwrap()]).unwrap();
    let refused = session.set_option_path("qnn.lora_config", name(b"a\0b")).unwrap_err();
    assert!(refused.to_string().contains("NUL"), "{refused}");
    drop(session);
    assert!(std::fs::metadata(&events).unwrap().len() > 10);
    let missing = Model::open(&runtime, name(b"no\xe9.onnx"), None).err().unwrap();
    assert!(missing.to_string().contains("no\\xe9.onnx") && std::io::Error::from(missing).kind() == std::io::ErrorKind::NotFound);
    let other = Runtime::builder().prepare_path(name(b"no\xe9.so")).build().unwrap();
    assert!(Model::open(&other, &path, None).err().unwrap().to_string().contains("no\\xe9.so"));
    std::fs::remove_dir_all(path.parent().unwrap()).unwrap();
}

/// The rows of docs/coming-from.md, "ort, tract", as they stand there.
#[cfg(feature = "ndarray")]
#[test]
fn rows_of_coming_from() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let path = model_path();
    let runtime = Runtime::new()?;
    let mut session = Session::new(&Model::open(&runtime, path, None)?, Some(&Options::new(&runtime)?.with("threads", "2")?))?;
    let memory = Model::from_memory(&runtime, include_bytes!("../../../../models/digits/digits.onnx"), None)?;
    let (shape, data) = ([1, 1, 8, 8], IMAGE);
    let tensor = TensorRef::new(&shape, &data)?;
    let array = ndarray::Array4::from_elem([1, 1, 8, 8], 0.5f32);
    let same: TensorRef = (&array).try_into()?;
    let outputs = session.run_named(&[("image", tensor)])?;
    assert_eq!(outputs.named::<f32>("scores")?, wanted());
    assert_eq!(outputs.array::<f32>(0)?.shape(), [1, 10]);
    assert_eq!(session.run(&[same])?.data::<f32>(0)?, wanted());
    let mut chosen = Session::new(&memory, Some(&Options::new(&runtime)?.with("shape", "image=1x1x8x8")?.with("backend", "cpu")?))?;
    assert_eq!(chosen.run(&[tensor])?.data::<f32>(0)?, wanted());
    let error = |result: Result<Model>| -> std::io::Result<()> { result.map(drop).map_err(Into::into) };
    assert!(error(Model::open(&runtime, "/none.onnx", None)).is_err());
    Ok(())
}
