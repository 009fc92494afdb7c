//! Builds GGUF files byte by byte, also invalid ones.

/// Type numbers of metadata values.
pub(crate) const U32: u32 = 4;
pub(crate) const F32: u32 = 6;
pub(crate) const FLAG: u32 = 7;
pub(crate) const TEXT: u32 = 8;
pub(crate) const LIST: u32 = 9;

/// A GGUF file in parts.
#[derive(Clone)]
pub(crate) struct Builder {
    pub(crate) magic: [u8; 4],
    pub(crate) version: u32,
    /// Numbers of tensors and of metadata entries to write in place of the true ones.
    pub(crate) counts: Option<[u64; 2]>,
    pub(crate) metadata: Vec<u8>,
    pub(crate) entries: u64,
    pub(crate) table: Vec<u8>,
    pub(crate) tensors: u64,
    pub(crate) data: Vec<u8>,
}

/// A text after its length.
pub(crate) fn text(text: impl AsRef<[u8]>) -> Vec<u8> {
    let text = text.as_ref();
    [&(text.len() as u64).to_le_bytes()[..], text].concat()
}

/// A list of `count` elements of type `kind`.
pub(crate) fn list(kind: u32, count: u64, things: &[u8]) -> Vec<u8> {
    [&kind.to_le_bytes()[..], &count.to_le_bytes(), things].concat()
}

impl Builder {
    pub(crate) fn new() -> Self {
        Self {
            magic: *b"GGUF",
            version: 3,
            counts: None,
            metadata: Vec::new(),
            entries: 0,
            table: Vec::new(),
            tensors: 0,
            data: Vec::new(),
        }
    }

    pub(crate) fn value(mut self, key: impl AsRef<[u8]>, kind: u32, value: &[u8]) -> Self {
        self.metadata.extend(text(key));
        self.metadata.extend(kind.to_le_bytes());
        self.metadata.extend(value);
        self.entries += 1;
        self
    }

    pub(crate) fn size(self, key: &str, value: u32) -> Self {
        self.value(key, U32, &value.to_le_bytes())
    }

    pub(crate) fn text(self, key: &str, value: &str) -> Self {
        self.value(key, TEXT, &text(value))
    }

    /// An entry of the tensor table, with the innermost extent first.
    pub(crate) fn entry(
        mut self,
        name: impl AsRef<[u8]>,
        shape: &[u64],
        kind: u32,
        at: u64,
    ) -> Self {
        self.table.extend(text(name));
        self.table.extend((shape.len() as u32).to_le_bytes());
        self.table
            .extend(shape.iter().flat_map(|extent| extent.to_le_bytes()));
        self.table.extend(kind.to_le_bytes());
        self.table.extend(at.to_le_bytes());
        self.tensors += 1;
        self
    }

    /// Adds a tensor of `bytes` zero bytes, of type `kind`.
    pub(crate) fn tensor(mut self, name: &str, shape: &[u64], kind: u32, bytes: usize) -> Self {
        let at = self.data.len();
        self.data.resize((at + bytes).next_multiple_of(32), 0);
        self.entry(name, shape, kind, at as u64)
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.magic.to_vec();
        bytes.extend(self.version.to_le_bytes());
        let [tensors, entries] = self.counts.unwrap_or([self.tensors, self.entries]);
        bytes.extend(tensors.to_le_bytes());
        bytes.extend(entries.to_le_bytes());
        bytes.extend(&self.metadata);
        bytes.extend(&self.table);
        bytes.resize(bytes.len().next_multiple_of(32), 0);
        bytes.extend(&self.data);
        bytes
    }
}
