//! The list of all operations of Burn's graphs, and which of them are lowered.

use burn_ir::{
    ActivationOperationIr, BaseOperationIr, BoolOperationIr, DistributedOperationIr,
    FloatOperationIr, IntOperationIr, ModuleOperationIr, NumericOperationIr, OperationIr,
};
use std::fmt;

/// A kind of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Leaf {
    /// The variant of `OperationIr` that the operation belongs to.
    pub group: &'static str,
    /// The operation's own variant; empty where the group is one operation.
    pub name: &'static str,
    /// Whether the operation has a lowering.
    pub lowered: bool,
}

impl fmt::Display for Leaf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name {
            "" => f.write_str(self.group),
            name => write!(f, "{}::{name}", self.group),
        }
    }
}

/// Lists the variants of one of Burn's enums, both as a list and as a match without a wildcard, so that a variant that
/// a new version adds doesn't compile until it is listed here.
macro_rules! variants {
    ($list:ident, $name:ident, $operations:ident: $($variant:ident)*; not $($missing:ident)*) => {
        const $list: &[(&str, bool)] = &[
            $((stringify!($variant), true),)*
            $((stringify!($missing), false),)*
        ];

        fn $name(operation: &$operations) -> (&'static str, bool) {
            match operation {
                $($operations::$variant { .. } => (stringify!($variant), true),)*
                $($operations::$missing { .. } => (stringify!($missing), false),)*
            }
        }
    };
}

variants!(BASE, base, BaseOperationIr:
    Reshape SwapDims Permute Flip Expand Unfold Slice SliceAssign Select SelectAssign MaskWhere MaskFill
    Gather Scatter ScatterNd GatherNd Equal EqualElem RepeatDim Cat Cast Empty Ones Zeros NotEqual
    NotEqualElem All Any AllDim AnyDim; not);

variants!(NUMERIC, numeric, NumericOperationIr:
    Add AddScalar Sub SubScalar Div DivScalar Rem RemScalar Mul MulScalar Abs Full MeanDim Mean Sum
    SumDim SumDims Prod ProdDim Greater GreaterElem GreaterEqual GreaterEqualElem Lower LowerElem
    LowerEqual LowerEqualElem ArgMax ArgTopK TopK TopKWithIndices ArgMin Max MaxDimWithIndices
    MinDimWithIndices Min MaxDim MinDim MaxAbs MaxAbsDim Clamp IntRandom Powi PowiScalar CumSum CumProd
    CumMin CumMax Neg Sign ClampMin ClampMax Sort SortWithIndices ArgSort Pad; not);

variants!(BOOL, boolean, BoolOperationIr: IntoFloat IntoInt Not And Or Xor; not);

variants!(INT, int, IntOperationIr:
    IntoFloat BitwiseAnd BitwiseAndScalar BitwiseOr BitwiseOrScalar BitwiseXor BitwiseXorScalar
    BitwiseNot BitwiseLeftShift BitwiseLeftShiftScalar BitwiseRightShift BitwiseRightShiftScalar
    Matmul; not);

variants!(FLOAT, float, FloatOperationIr:
    Exp Log Log1p Erf PowfScalar Sqrt Cos Cosh Sin Sinh Tan Tanh ArcCos ArcCosh ArcSin ArcSinh ArcTan
    ArcTanh ArcTan2 Round Floor Ceil Trunc IntoInt Matmul Cross Random Recip IsNan IsInf GridSample2d
    Powf Hypot; not Quantize Dequantize);

variants!(MODULE, module, ModuleOperationIr:
    BatchNorm Embedding EmbeddingBackward Linear LinearXBackward LinearWeightBackward
    LinearBiasBackward Conv1d Conv1dXBackward Conv1dWeightBackward Conv1dBiasBackward Conv2d
    Conv2dXBackward Conv2dWeightBackward Conv2dBiasBackward Conv3d Conv3dXBackward
    Conv3dWeightBackward Conv3dBiasBackward ConvTranspose1d ConvTranspose2d ConvTranspose3d AvgPool1d
    AvgPool2d AvgPool1dBackward AvgPool2dBackward AdaptiveAvgPool1d AdaptiveAvgPool2d
    AdaptiveAvgPool1dBackward AdaptiveAvgPool2dBackward AdaptiveAvgPool3d AdaptiveAvgPool3dBackward
    MaxPool1d MaxPool1dWithIndices MaxPool1dWithIndicesBackward MaxPool2d MaxPool2dWithIndices
    MaxPool2dWithIndicesBackward Interpolate InterpolateBackward Attention LayerNorm Unfold4d
    ConvTranspose1dWeightBackward ConvTranspose1dBiasBackward ConvTranspose2dWeightBackward
    ConvTranspose2dBiasBackward ConvTranspose3dWeightBackward ConvTranspose3dBiasBackward;
    not DeformableConv2d DeformableConv2dBackward CtcLoss CtcLossBackward);

variants!(DISTRIBUTED, distributed, DistributedOperationIr: ; not AllReduce SyncCollective);

variants!(ACTIVATION, activation, ActivationOperationIr:
    Relu ReluBackward LeakyRelu PRelu Gelu GeluBackward Sigmoid SigmoidBackward HardSigmoid LogSigmoid
    LogSigmoidBackward Softmax LogSoftmax Softmin; not);

/// Whether an operation can occur in a graph: Burn's router never records some of them for tensors of this kind.
fn occurs(group: &str, name: &str) -> bool {
    let only_int = group == "NumericFloat" && name == "IntRandom";
    let not_bool = group == "BaseBool" && matches!(name, "ScatterNd" | "GatherNd" | "Cast");
    !(only_int || not_bool)
}

/// The kind of an operation.
pub fn leaf(operation: &OperationIr) -> Leaf {
    let (group, (name, lowered)) = match operation {
        OperationIr::BaseFloat(op) => ("BaseFloat", base(op)),
        OperationIr::BaseInt(op) => ("BaseInt", base(op)),
        OperationIr::BaseBool(op) => ("BaseBool", base(op)),
        OperationIr::NumericFloat(_, op) => ("NumericFloat", numeric(op)),
        OperationIr::NumericInt(_, op) => ("NumericInt", numeric(op)),
        OperationIr::Bool(op) => ("Bool", boolean(op)),
        OperationIr::Int(op) => ("Int", int(op)),
        OperationIr::Float(_, op) => ("Float", float(op)),
        OperationIr::Module(op) => ("Module", module(op)),
        OperationIr::Init(_) => ("Init", ("", true)),
        OperationIr::Custom(_) => ("Custom", ("", true)),
        OperationIr::Drop(_) => ("Drop", ("", true)),
        OperationIr::Distributed(op) => ("Distributed", distributed(op)),
        OperationIr::Activation(op) => ("Activation", activation(op)),
    };
    Leaf {
        group,
        name,
        lowered,
    }
}

/// Every kind of operation that Burn's router can record, in the order of its enums.
pub fn leaves() -> Vec<Leaf> {
    let groups: [(&'static str, &'static [(&'static str, bool)]); 14] = [
        ("BaseFloat", BASE),
        ("BaseInt", BASE),
        ("BaseBool", BASE),
        ("NumericFloat", NUMERIC),
        ("NumericInt", NUMERIC),
        ("Bool", BOOL),
        ("Int", INT),
        ("Float", FLOAT),
        ("Module", MODULE),
        ("Init", &[("", true)]),
        ("Custom", &[("", true)]),
        ("Drop", &[("", true)]),
        ("Distributed", DISTRIBUTED),
        ("Activation", ACTIVATION),
    ];
    let leaves = groups.into_iter().flat_map(|(group, names)| {
        let names = names.iter().filter(move |(name, _)| occurs(group, name));
        names.map(move |(name, lowered)| Leaf {
            group,
            name,
            lowered: *lowered,
        })
    });
    leaves.collect()
}
