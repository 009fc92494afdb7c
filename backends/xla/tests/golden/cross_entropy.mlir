module @moebius attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%0: tensor<4x7xf32>, %1: tensor<4xi64>) -> (tensor<1xf32>) {
    %2 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %3 = stablehlo.reduce(%0 init: %2) applies stablehlo.maximum across dimensions = [1] : (tensor<4x7xf32>, tensor<f32>) -> tensor<4xf32>
    %4 = stablehlo.reshape %3 : (tensor<4xf32>) -> tensor<4x1xf32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1] : (tensor<4x1xf32>) -> tensor<4x7xf32>
    %6 = stablehlo.subtract %0, %5 : tensor<4x7xf32>
    %7 = stablehlo.exponential %6 : tensor<4x7xf32>
    %8 = stablehlo.constant dense<0.0e0> : tensor<f32>
    %9 = stablehlo.reduce(%7 init: %8) applies stablehlo.add across dimensions = [1] : (tensor<4x7xf32>, tensor<f32>) -> tensor<4xf32>
    %10 = stablehlo.reshape %9 : (tensor<4xf32>) -> tensor<4x1xf32>
    %11 = stablehlo.log %10 : tensor<4x1xf32>
    %12 = stablehlo.broadcast_in_dim %11, dims = [0, 1] : (tensor<4x1xf32>) -> tensor<4x7xf32>
    %13 = stablehlo.subtract %6, %12 : tensor<4x7xf32>
    %14 = stablehlo.reshape %1 : (tensor<4xi64>) -> tensor<4x1xi64>
    %15 = stablehlo.reshape %14 : (tensor<4x1xi64>) -> tensor<4x1x1xi64>
    %16 = "stablehlo.gather"(%13, %15) <{dimension_numbers = #stablehlo.gather<offset_dims = [], collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1>}> : (tensor<4x7xf32>, tensor<4x1x1xi64>) -> tensor<4x1xf32>
    %17 = stablehlo.constant dense<0.0e0> : tensor<f32>
    %18 = stablehlo.reduce(%16 init: %17) applies stablehlo.add across dimensions = [0, 1] : (tensor<4x1xf32>, tensor<f32>) -> tensor<f32>
    %19 = stablehlo.constant dense<4.0e0> : tensor<f32>
    %20 = stablehlo.divide %18, %19 : tensor<f32>
    %21 = stablehlo.reshape %20 : (tensor<f32>) -> tensor<1xf32>
    %22 = stablehlo.negate %21 : tensor<1xf32>
    return %22 : tensor<1xf32>
  }
}
