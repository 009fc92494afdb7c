//! What a device is, and what runs on it.

use js_sys::{Array, Function, Object, Promise, Reflect};
use moebius_device::browser::PowerPreference;
use moebius_device::{Capability, DeviceKind, Opened};
use moebius_ops::Element;
use moebius_ops::fp8::Fp8Format;
use moebius_ops::grouped_gemm::Problem;
use moebius_ops::scaling::{Fp8Scheme, Granularity};
use moebius_shaders::PlanError;
use moebius_shaders::grouped_gemm::{Choice, plan};
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;

use crate::record::{Record, list};

/// The `DeviceReport` of a device.
pub(crate) async fn report(opened: &Opened, preference: PowerPreference) -> JsValue {
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
        .into()
}

/// The adapter as the browser describes it: wgpu passes its description on and keeps the rest.
async fn adapter(preference: PowerPreference) -> Result<JsValue, JsValue> {
    let navigator = Reflect::get(&js_sys::global(), &"navigator".into())?;
    let gpu = Reflect::get(&navigator, &"gpu".into())?;
    let ask: Function = Reflect::get(&gpu, &"requestAdapter".into())?.dyn_into()?;
    let preference = match preference {
        PowerPreference::High => "high-performance",
        PowerPreference::Low => "low-power",
    };
    let options = Record::new().with("powerPreference", preference);
    let promise: Promise = ask.call1(&gpu, &options.into())?.dyn_into()?;
    JsFuture::from(promise).await
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
    Record::new()
        .with("maxBindings", limits.max_bindings)
        .with("maxUnitsPerCube", limits.max_units_per_cube)
        .with("maxSharedMemory", limits.max_shared_memory as u32)
        .with("maxBindingBytes", limits.max_binding_bytes as f64)
        .with("maxBufferBytes", limits.max_buffer_bytes as f64)
}

/// Which kernel multiplies in an expert layer: top-2 of 8 experts, 256 → 512.
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
        fp8,
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
