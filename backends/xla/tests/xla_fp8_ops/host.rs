impl Host {
    pub fn f32s(shape: &[usize], values: &[f32]) -> Self {
        Self::new(shape, ElementType::F32, values.iter().flat_map(|x| x.to_le_bytes()))
    }

    pub fn ints(shape: &[usize], words: &[u32]) -> Self {
        Self::new(shape, ElementType::S32, words.iter().flat_map(|x| x.to_le_bytes()))
    }

    /// Words as a host's i64.
    pub fn longs(words: &[u32]) -> Self {
        let longs = words.iter().map(|word| i64::from(*word as i32));
        Self::new(&[words.len()], ElementType::S64, longs.flat_map(|x| x.to_le_bytes()))
    }

    pub fn halves(element: ElementType, bits: &[u16]) -> Self {
        Self::new(&[bits.len()], element, bits.iter().flat_map(|x| x.to_le_bytes()))
    }

    fn new(shape: &[usize], element: ElementType, bytes: impl Iterator<Item = u8>) -> Self {
        let ty = TensorType::new(shape, element);
        let bytes: Vec<u8> = bytes.collect();
        assert_eq!(bytes.len(), ty.bytes());
        Self { ty, bytes }
    }

    pub fn reshaped(self, shape: &[usize]) -> Self {
        let ty = self.ty.with_shape(shape);
        Self { ty, ..self }
    }

    pub fn floats(&self) -> Vec<f32> {
        assert_eq!(self.ty.element, ElementType::F32);
        self.words().into_iter().map(f32::from_bits).collect()
    }

    pub fn words(&self) -> Vec<u32> {
        let words = self.bytes.chunks_exact(4);
        words.map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect()
    }

    pub fn halves_of(&self) -> impl Iterator<Item = u16> + '_ {
        self.bytes.chunks_exact(2).map(|half| u16::from_le_bytes([half[0], half[1]]))
    }
}
