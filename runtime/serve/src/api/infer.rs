//! `POST /v1/infer`: a function of the model on tensors, which come and go as safetensors.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use safetensors::tensor::{Dtype, TensorView};
use safetensors::{SafeTensors, serialize};
use tokio::sync::oneshot;

use crate::body;
use crate::error::{ApiError, ErrorBody};
use crate::service::Service;
use crate::worker::{Command, Failure, Logits};

/// Type of the bodies, in both directions.
const BYTES: &str = "application/octet-stream";

/// Name of the entry of the metadata that says which function to compute.
const FUNCTION: &str = "function";

/// The one function: tensor `tokens` \[S\] to tensor `logits` \[V\], those of the token after the last.
const LAST_LOGITS: &str = "last_logits";

/// Computes a function of the model. The body is a safetensors file whose metadata names it: `function` = `last_logits` takes the tensor
/// `tokens` \[S\] of I32, U32 or I64, and gives `logits` \[V\] of F32.
#[utoipa::path(
    post,
    path = "/v1/infer",
    operation_id = "infer",
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses(
        (status = 200, description = "The results in safetensors", body = Vec<u8>, content_type = "application/octet-stream"),
        (status = "4XX", description = "The request is at fault", body = ErrorBody),
        (status = "5XX", description = "The server is at fault", body = ErrorBody),
    )
)]
pub(crate) async fn create(
    State(service): State<Arc<Service>>,
    request: Request,
) -> Result<Response, ApiError> {
    service.open()?;
    body::check_type(request.headers(), BYTES)?;
    let bytes = body::read(request.into_body(), service.limits()).await?;
    let tokens = tokens(&bytes)?;
    let mut places = service.places(1)?;
    service.queue(&mut places, [tokens.len()])?;
    let (reply, replied) = oneshot::channel();
    let place = places.pop();
    let place = place.unwrap_or_else(|| unreachable!("one place was taken"));
    let command = Command::Logits(Logits {
        tokens,
        reply,
        place,
    });
    let sent = service.worker.send(command);
    sent.map_err(|failure| ApiError::failure(&failure, 0))?;
    // The engine's thread drops the sender when it fails.
    let logits = replied.await.unwrap_or(Err(Failure::Gone));
    let wait = service.admission.wait();
    let logits = logits.map_err(|failure| ApiError::failure(&failure, wait))?;
    let written = written(&logits);
    let written = written.map_err(|error| ApiError::internal("unwritable", error.to_string()))?;
    Ok(([(header::CONTENT_TYPE, BYTES)], written).into_response())
}

/// The tokens of a request.
fn tokens(bytes: &[u8]) -> Result<Vec<u32>, ApiError> {
    let unreadable = |error: safetensors::SafeTensorError| {
        let message = format!("expected a safetensors file, got an error: {error}");
        ApiError::field("", message)
    };
    let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(unreadable)?;
    let metadata = metadata.metadata().as_ref();
    let function = metadata.and_then(|metadata| metadata.get(FUNCTION));
    if function.map(String::as_str) != Some(LAST_LOGITS) {
        let message = format!("{FUNCTION}: expected {LAST_LOGITS:?}, got {function:?}");
        return Err(ApiError::field(FUNCTION, message));
    }
    let tensors = SafeTensors::deserialize(bytes).map_err(unreadable)?;
    let refused = |got: String| {
        let message = format!("tokens: expected ids as I32, U32 or I64 [S], got {got}");
        ApiError::field("tokens", message)
    };
    let tensor = tensors.tensor("tokens");
    let tensor = tensor.map_err(|_| refused("no such tensor".to_owned()))?;
    let (dtype, shape) = (tensor.dtype(), tensor.shape());
    if shape.len() != 1 {
        return Err(refused(format!("{dtype:?} {shape:?}")));
    }
    let ids = match dtype {
        Dtype::I32 => numbers(tensor.data(), |four| i64::from(i32::from_le_bytes(four))),
        Dtype::U32 => numbers(tensor.data(), |four| i64::from(u32::from_le_bytes(four))),
        Dtype::I64 => numbers(tensor.data(), i64::from_le_bytes),
        other => return Err(refused(format!("{other:?}"))),
    };
    let ids = ids.map(|id| u32::try_from(id).map_err(|_| refused(id.to_string())));
    ids.collect()
}

/// The numbers of N bytes each in `data`.
fn numbers<const N: usize>(
    data: &[u8],
    number: impl Fn([u8; N]) -> i64 + 'static,
) -> Box<dyn Iterator<Item = i64> + '_> {
    let (numbers, _) = data.as_chunks::<N>();
    Box::new(numbers.iter().map(move |bytes| number(*bytes)))
}

/// The file of a response.
fn written(logits: &[f32]) -> Result<Vec<u8>, safetensors::SafeTensorError> {
    let data: Vec<u8> = logits
        .iter()
        .flat_map(|logit| logit.to_le_bytes())
        .collect();
    let tensor = TensorView::new(Dtype::F32, vec![logits.len()], &data)?;
    let metadata = HashMap::from([(FUNCTION.to_owned(), LAST_LOGITS.to_owned())]);
    serialize([("logits", tensor)], Some(metadata))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(function: &str, name: &str, dtype: Dtype, shape: Vec<usize>, data: &[u8]) -> Vec<u8> {
        let tensor = TensorView::new(dtype, shape, data).unwrap();
        let metadata = HashMap::from([(FUNCTION.to_owned(), function.to_owned())]);
        serialize([(name, tensor)], Some(metadata)).unwrap()
    }

    #[test]
    fn ids_of_any_whole_numbers_are_read() {
        let long: Vec<u8> = [3_i64, 70_000]
            .iter()
            .flat_map(|id| id.to_le_bytes())
            .collect();
        let read = tokens(&file(LAST_LOGITS, "tokens", Dtype::I64, vec![2], &long));
        assert_eq!(read.unwrap(), [3, 70_000]);
        let short: Vec<u8> = [3_i32, 9].iter().flat_map(|id| id.to_le_bytes()).collect();
        let read = tokens(&file(LAST_LOGITS, "tokens", Dtype::I32, vec![2], &short));
        assert_eq!(read.unwrap(), [3, 9]);
    }

    #[test]
    fn other_files_are_refused_by_name() {
        let minus = (-1_i32).to_le_bytes();
        for (file, param) in [
            (
                file("other", "tokens", Dtype::I32, vec![1], &minus),
                FUNCTION,
            ),
            (
                file(LAST_LOGITS, "ids", Dtype::I32, vec![1], &minus),
                "tokens",
            ),
            (
                file(LAST_LOGITS, "tokens", Dtype::I32, vec![1], &minus),
                "tokens",
            ),
            (
                file(LAST_LOGITS, "tokens", Dtype::F32, vec![1], &minus),
                "tokens",
            ),
            (
                file(LAST_LOGITS, "tokens", Dtype::I32, vec![1, 1], &minus),
                "tokens",
            ),
        ] {
            let error = tokens(&file).unwrap_err();
            let said = serde_json::to_string(&error.body()).unwrap();
            assert!(said.contains(&format!(r#""param":"{param}""#)), "{said}");
        }
        assert!(tokens(b"").is_err() && tokens(&[255; 64]).is_err());
    }

    #[test]
    fn results_are_a_file() {
        let file = written(&[1.0, -2.5]).unwrap();
        let tensors = SafeTensors::deserialize(&file).unwrap();
        let logits = tensors.tensor("logits").unwrap();
        assert_eq!((logits.dtype(), logits.shape()), (Dtype::F32, &[2][..]));
        assert_eq!(&logits.data()[4..], (-2.5_f32).to_le_bytes());
    }
}
