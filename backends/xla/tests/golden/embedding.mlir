module @moebius attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%0: tensor<7x4xf32>, %1: tensor<2x3xi64>) -> (tensor<2x3x4xf32>) {
    %2 = stablehlo.reshape %1 : (tensor<2x3xi64>) -> tensor<6xi64>
    %3 = "stablehlo.gather"(%0, %2) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 4>}> : (tensor<7x4xf32>, tensor<6xi64>) -> tensor<6x4xf32>
    %4 = stablehlo.reshape %3 : (tensor<6x4xf32>) -> tensor<2x3x4xf32>
    return %4 : tensor<2x3x4xf32>
  }
}
