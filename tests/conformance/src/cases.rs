//! Case files: inputs and outputs that PyTorch computed.

use safetensors::SafeTensors;
use serde_json::Value;
use std::path::Path;

/// One file of `tests/cases`.
pub(crate) struct Case(Vec<u8>);

impl Case {
    pub(crate) fn read(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cases");
        let path = folder.join(format!("{name}.safetensors"));
        Self(std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
    }

    /// The parameters of the operation.
    pub(crate) fn params(&self) -> Value {
        let (_, metadata) = SafeTensors::read_metadata(&self.0).unwrap();
        let texts = metadata.metadata().clone().unwrap();
        serde_json::from_str(&texts["params"]).unwrap()
    }

    fn file(&self) -> SafeTensors<'_> {
        SafeTensors::deserialize(&self.0).unwrap()
    }

    pub(crate) fn shape(&self, name: &str) -> Vec<usize> {
        self.file().tensor(name).unwrap().shape().to_vec()
    }

    /// The f32 values of a tensor.
    pub(crate) fn floats(&self, name: &str) -> Vec<f32> {
        let file = self.file();
        let tensor = file.tensor(name).unwrap();
        assert_eq!(tensor.dtype(), safetensors::Dtype::F32, "{name}");
        let bytes = tensor.data().chunks_exact(4);
        bytes
            .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
            .collect()
    }
}
