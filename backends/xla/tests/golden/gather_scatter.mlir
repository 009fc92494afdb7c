module @moebius attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%0: tensor<3x4xf32>, %1: tensor<3x2xi64>, %2: tensor<3x2xf32>) -> (tensor<3x2xf32>, tensor<3x4xf32>) {
    %3 = stablehlo.reshape %1 : (tensor<3x2xi64>) -> tensor<3x2x1xi64>
    %4 = "stablehlo.gather"(%0, %3) <{dimension_numbers = #stablehlo.gather<offset_dims = [], collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1>}> : (tensor<3x4xf32>, tensor<3x2x1xi64>) -> tensor<3x2xf32>
    %5 = stablehlo.reshape %1 : (tensor<3x2xi64>) -> tensor<3x2x1xi64>
    %9 = "stablehlo.scatter"(%0, %5, %2) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [], inserted_window_dims = [1], input_batching_dims = [0], scatter_indices_batching_dims = [0], scatter_dims_to_operand_dims = [1], index_vector_dim = 2>, unique_indices = false}> ({
    ^bb0(%6: tensor<f32>, %7: tensor<f32>):
      %8 = stablehlo.add %6, %7 : tensor<f32>
      stablehlo.return %8 : tensor<f32>
    }) : (tensor<3x4xf32>, tensor<3x2x1xi64>, tensor<3x2xf32>) -> tensor<3x4xf32>
    return %4, %9 : tensor<3x2xf32>, tensor<3x4xf32>
  }
}
