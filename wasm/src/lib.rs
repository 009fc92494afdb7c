//! Moebius in the browser.

use burn::tensor::Tensor;
use moebius::moe::MoeConfig;
use wasm_bindgen::prelude::*;

/// Trial.
#[wasm_bindgen]
pub async fn trial() -> Result<Vec<f32>, JsError> {
    let device = moebius::open(&moebius::Device::Wgpu(None))?;
    let layer = MoeConfig::new(16, 32, 4).init(&device)?;
    let x = Tensor::<3>::ones([1, 4, 16], &device);
    let y = layer.forward(x)?.y;
    let data = y
        .into_data_async()
        .await
        .map_err(|e| JsError::new(&format!("{e:?}")))?;
    Ok(data.iter::<f32>().collect())
}
