//! The device for JavaScript: its report, its memory and its loss, and case files to check it with.

use std::rc::Rc;

use js_sys::{Array, Object, Promise, Reflect};
use moebius_cases::{CaseFile, OutputReport, Verdict};
use moebius_device::browser::{BrowserDevice, PowerPreference};
use moebius_device::{Capability, DeviceKind, Opened};
use moebius_ops::Element;
use moebius_ops::fp8::Fp8Format;
use moebius_ops::grouped_gemm::{Problem, Stored};
use moebius_ops::scaling::{Fp8Scheme, Granularity};
use moebius_shaders::PlanError;
use moebius_shaders::grouped_gemm::{Choice, plan};
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen::{JsCast, JsValue};

use crate::failure::Failure;
use crate::objects::{Options, Record, bytes, list};
use crate::work::{Gpu, Held, now, promise, wait};

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(catch, js_namespace = ["navigator", "gpu"], js_name = requestAdapter)]
    fn request_adapter(options: &JsValue) -> Result<Promise, JsValue>;
}

/// An open WebGPU device of this page or worker.
#[wasm_bindgen]
pub struct Device {
    gpu: Held<Gpu>,
    report: JsValue,
    lost: Promise,
}

#[wasm_bindgen]
impl Device {
    /// Asks the browser for a device, with every feature and limit that its adapter has.
    ///
    /// Each call opens another device, so one that was lost can be replaced. Rejects with the code 'no-webgpu' where
    /// there is none.
    #[wasm_bindgen(unchecked_return_type = "Promise<Device>")]
    pub fn open(
        #[wasm_bindgen(unchecked_optional_param_type = "DeviceOptions")] options: JsValue,
    ) -> Promise {
        promise(Self::opened(options))
    }

    async fn opened(options: JsValue) -> Result<Self, Failure> {
        let mut options = Options::new("device options", options)?;
        let preferences = [
            ("high-performance", PowerPreference::High),
            ("low-power", PowerPreference::Low),
        ];
        let preference = options.choice("powerPreference", &preferences)?;
        options.finish()?;
        let browser = BrowserDevice::open(preference).await?;
        let burn = moebius::on(browser.opened())?;
        let report = report(browser.opened(), preference).await;
        let loss = browser.lost();
        let lost = promise(async {
            let loss = loss.await;
            let reason = if loss.destroyed {
                "destroyed"
            } else {
                "unknown"
            };
            Ok(Record::new()
                .with("reason", reason)
                .with("message", loss.message))
        });
        Ok(Self {
            gpu: Held::new("device", Gpu { browser, burn }),
            report,
            lost,
        })
    }

    /// Description of the device, and of the kernels that run on it.
    #[wasm_bindgen(getter, unchecked_return_type = "DeviceReport")]
    pub fn report(&self) -> JsValue {
        self.report.clone()
    }

    /// Resolves when the device is lost, and never rejects. Everything on the device is lost with it; open another.
    #[wasm_bindgen(getter, unchecked_return_type = "Promise<DeviceLoss>")]
    pub fn lost(&self) -> Promise {
        self.lost.clone()
    }

    /// Bytes held on the device, after all queued work.
    #[wasm_bindgen(unchecked_return_type = "Promise<MemoryUse>")]
    pub fn memory(&self) -> Promise {
        let gpu = self.gpu.get();
        promise(async move {
            let held = gpu?.memory().await?;
            Ok(Record::new()
                .with("inUse", held.in_use as f64)
                .with("reserved", held.reserved as f64))
        })
    }

    /// Runs a case file (safetensors) and compares its outputs with the expected ones.
    ///
    /// Rejects with the code 'bad-file' if the bytes are no case file, or a case of something unknown, and with 'unsupported' if the case
    /// computes in f16 or bf16 and the device doesn't.
    #[wasm_bindgen(unchecked_return_type = "Promise<CaseReport>")]
    pub fn verify(
        &self,
        #[wasm_bindgen(js_name = caseFile, unchecked_param_type = "Uint8Array")] case_file: JsValue,
    ) -> Promise {
        let gpu = self.gpu.get();
        promise(async move {
            let gpu = gpu?;
            let file = CaseFile::parse(bytes("case file", &case_file)?);
            let file = file.map_err(moebius_cases::Error::from)?;
            let start = now();
            let judge = async { Ok(moebius_cases::judge(&file, &gpu.burn).await?) };
            let outputs = gpu.run(judge).await?;
            let verdict = verdict(outputs.iter().all(|o| o.verdict == Verdict::Pass));
            Ok(Record::new()
                .with("op", file.op())
                .with("verdict", verdict)
                .with("milliseconds", now() - start)
                .with("outputs", list(outputs.iter().map(output))))
        })
    }

    /// Releases the device and all memory on it. Afterwards, everything made on it fails with the code 'device-lost',
    /// `lost` resolves, and calls on this object fail with 'disposed'.
    pub fn destroy(&self) {
        if let Ok(gpu) = self.gpu.get() {
            gpu.browser.destroy();
            self.gpu.dispose();
        }
    }
}

impl Device {
    /// The open device, for an object that will live on it; fails if the device is gone.
    pub(crate) fn gpu(&self) -> Result<Rc<Gpu>, Failure> {
        let gpu = self.gpu.get()?;
        gpu.alive()?;
        Ok(gpu)
    }
}

fn verdict(passed: bool) -> &'static str {
    if passed { "pass" } else { "fail" }
}

fn output(output: &OutputReport) -> Record {
    Record::new()
        .with("name", output.name.as_str())
        .with("maxAbs", output.max_abs)
        .with("relL2", output.rel_l2)
        .with("tolerance", output.tolerance.to_string())
        .with("verdict", verdict(output.verdict == Verdict::Pass))
}

/// Version of the package.
#[wasm_bindgen]
pub fn version() -> String {
    env!("CARGO_PKG_VERSION").to_owned()
}

/// Builds the `DeviceReport` of a device.
async fn report(opened: &Opened, preference: PowerPreference) -> JsValue {
    let adapter = adapter(preference).await.unwrap_or(JsValue::UNDEFINED);
    let info = Reflect::get(&adapter, &"info".into()).unwrap_or(JsValue::UNDEFINED);
    let word = |key: &str| {
        let word = Reflect::get(&info, &key.into()).ok();
        word.and_then(|word| word.as_string()).unwrap_or_default()
    };
    let capability = &opened.capability;
    let software = capability.kind == DeviceKind::Cpu;
    let kind = if software { "software adapter" } else { "GPU" };
    let subgroups = match capability.subgroup {
        Some((least, most)) => list([least, most]).into(),
        None => JsValue::NULL,
    };
    Record::new()
        .with("name", capability.name.as_str())
        .with("vendor", word("vendor"))
        .with("architecture", word("architecture"))
        .with("description", word("description"))
        .with("kind", kind)
        .with("software", software)
        .with("subgroups", subgroups)
        .with("f16", capability.f16)
        .with("limits", limits(capability))
        .with("features", features(&adapter))
        .with("runs", runs(capability))
        .with("kernels", moebius_shaders::FINGERPRINT)
        .into()
}

/// The adapter as the browser describes it; wgpu passes on only its description.
async fn adapter(preference: PowerPreference) -> Result<JsValue, JsValue> {
    let preference = match preference {
        PowerPreference::High => "high-performance",
        PowerPreference::Low => "low-power",
    };
    let options = Record::new().with("powerPreference", preference);
    wait(request_adapter(&options.into())?).await
}

fn features(adapter: &JsValue) -> Array {
    let features = Reflect::get(adapter, &"features".into()).unwrap_or(JsValue::UNDEFINED);
    let features: &Object = features.unchecked_ref();
    let names = js_sys::try_iter(features).ok().flatten();
    let names = names.map(|names| names.filter_map(Result::ok).collect::<Array>());
    let names = names.unwrap_or_default();
    names.sort();
    names
}

fn limits(capability: &Capability) -> Record {
    let limits = &capability.limits;
    let loop_rounds = capability.loop_rounds;
    let loop_rounds = loop_rounds.map_or(JsValue::NULL, JsValue::from);
    Record::new()
        .with("maxBindings", limits.max_bindings)
        .with("maxUnitsPerCube", limits.max_units_per_cube)
        .with("maxSharedMemory", limits.max_shared_memory as u32)
        .with("maxBindingBytes", limits.max_binding_bytes as f64)
        .with("maxBufferBytes", limits.max_buffer_bytes as f64)
        .with("loopRounds", loop_rounds)
}

/// Kernels for the products of an expert layer with top-2 of 8 experts, 256 → 512, or why there are none.
fn runs(capability: &Capability) -> Array {
    let weights = Fp8Scheme {
        format: Fp8Format::E4M3,
        granularity: Granularity::Row,
    };
    let forms = [
        ("f32", Element::F32, None),
        ("f16", Element::F16, None),
        ("FP8 weights", Element::F32, Some(weights)),
    ];
    let batches = [("512 tokens", 512), ("1 token", 1)];
    let runs = forms.into_iter().flat_map(|(form, element, fp8)| {
        batches.into_iter().map(move |(batch, tokens)| {
            let kernel = kernel(capability, tokens, (element, fp8));
            run(&format!("experts in {form}, {batch}"), kernel)
        })
    });
    list(runs)
}

fn kernel(
    capability: &Capability,
    tokens: usize,
    (element, fp8): (Element, Option<Fp8Scheme>),
) -> Result<&'static str, String> {
    let problem = Problem::new(2 * tokens, 8, 2, 512, 256).map_err(|error| error.to_string())?;
    let problem = Problem {
        element,
        stored: fp8.map_or(Stored::Values, Stored::Fp8),
        ..problem
    };
    let plan = plan(problem, capability, Choice::default());
    let plan = plan.map_err(|error| match error {
        PlanError::Unsupported(error) => format!("it needs {}", error.needs),
        PlanError::Mismatch(error) => error.to_string(),
    });
    Ok(plan?.variant.name())
}

fn run(what: &str, kernel: Result<&'static str, String>) -> Record {
    let record = Record::new().with("what", what);
    match kernel {
        Ok(kernel) => record.with("kernel", kernel).with("reason", JsValue::NULL),
        Err(reason) => record.with("kernel", JsValue::NULL).with("reason", reason),
    }
}
