//! The device, what it is, and the case files it can be tried with.

use std::rc::Rc;

use js_sys::Promise;
use moebius_cases::{CaseFile, OutputReport, Verdict};
use moebius_device::browser::{BrowserDevice, PowerPreference};
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;

use crate::failure::Failure;
use crate::options::{Options, bytes};
use crate::record::{Record, list};
use crate::report::report;
use crate::work::{Gpu, Held, now, promise};

/// An open WebGPU device of this page or worker.
#[wasm_bindgen]
pub struct Device {
    gpu: Held<Gpu>,
    report: JsValue,
    lost: Promise,
}

#[wasm_bindgen]
impl Device {
    /// Asks the browser for a device, with every feature and limit its adapter has.
    ///
    /// Each call opens another one, so a device that was lost can be replaced.
    /// Rejects with the code 'no-webgpu' where there is none.
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

    /// What the device is, and which kernels run on it.
    #[wasm_bindgen(getter, unchecked_return_type = "DeviceReport")]
    pub fn report(&self) -> JsValue {
        self.report.clone()
    }

    /// Resolves when the device goes away, and never rejects. What lived on it is gone; open another.
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

    /// Runs a case file (safetensors) and compares what comes out with what should.
    ///
    /// Rejects with the code 'bad-file' if it is no case file, or one of something unknown.
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

    /// Gives the device and all memory on it back. Everything made on it fails from then on with the
    /// code 'device-lost', and `lost` resolves; calls on this object fail with 'disposed'.
    pub fn destroy(&self) {
        if let Ok(gpu) = self.gpu.get() {
            gpu.browser.destroy();
            self.gpu.dispose();
        }
    }
}

impl Device {
    /// The device, for something that is to live on it.
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
