module @moebius attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%0: tensor<2x4xf32>, %1: tensor<4x8xf32>, %2: tensor<8xf32>) -> (tensor<2x8xf32>) {
    %3 = stablehlo.dot_general %0, %1, contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<2x4xf32>, tensor<4x8xf32>) -> tensor<2x8xf32>
    %4 = stablehlo.reshape %2 : (tensor<8xf32>) -> tensor<1x8xf32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1] : (tensor<1x8xf32>) -> tensor<2x8xf32>
    %6 = stablehlo.add %3, %5 : tensor<2x8xf32>
    %7 = stablehlo.constant dense<-7.071067811865476e-1> : tensor<2x8xf32>
    %8 = stablehlo.multiply %6, %7 : tensor<2x8xf32>
    %9 = chlo.erfc %8 : tensor<2x8xf32> -> tensor<2x8xf32>
    %10 = stablehlo.constant dense<5.0e-1> : tensor<2x8xf32>
    %11 = stablehlo.multiply %9, %10 : tensor<2x8xf32>
    %12 = stablehlo.multiply %6, %11 : tensor<2x8xf32>
    return %12 : tensor<2x8xf32>
  }
}
