module @moebius attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%0: tensor<2x8xf32>, %1: tensor<8xf32>, %2: tensor<8xf32>) -> (tensor<2x8xf32>) {
    %3 = stablehlo.constant dense<0.0e0> : tensor<f32>
    %4 = stablehlo.reduce(%0 init: %3) applies stablehlo.add across dimensions = [1] : (tensor<2x8xf32>, tensor<f32>) -> tensor<2xf32>
    %5 = stablehlo.reshape %4 : (tensor<2xf32>) -> tensor<2x1xf32>
    %6 = stablehlo.constant dense<8.0e0> : tensor<2x1xf32>
    %7 = stablehlo.divide %5, %6 : tensor<2x1xf32>
    %8 = stablehlo.broadcast_in_dim %7, dims = [0, 1] : (tensor<2x1xf32>) -> tensor<2x8xf32>
    %9 = stablehlo.subtract %0, %8 : tensor<2x8xf32>
    %10 = stablehlo.multiply %9, %9 : tensor<2x8xf32>
    %11 = stablehlo.constant dense<0.0e0> : tensor<f32>
    %12 = stablehlo.reduce(%10 init: %11) applies stablehlo.add across dimensions = [1] : (tensor<2x8xf32>, tensor<f32>) -> tensor<2xf32>
    %13 = stablehlo.reshape %12 : (tensor<2xf32>) -> tensor<2x1xf32>
    %14 = stablehlo.constant dense<8.0e0> : tensor<2x1xf32>
    %15 = stablehlo.divide %13, %14 : tensor<2x1xf32>
    %16 = stablehlo.constant dense<1.0e-5> : tensor<2x1xf32>
    %17 = stablehlo.add %15, %16 : tensor<2x1xf32>
    %18 = stablehlo.rsqrt %17 : tensor<2x1xf32>
    %19 = stablehlo.broadcast_in_dim %18, dims = [0, 1] : (tensor<2x1xf32>) -> tensor<2x8xf32>
    %20 = stablehlo.multiply %9, %19 : tensor<2x8xf32>
    %21 = stablehlo.broadcast_in_dim %1, dims = [1] : (tensor<8xf32>) -> tensor<2x8xf32>
    %22 = stablehlo.multiply %20, %21 : tensor<2x8xf32>
    %23 = stablehlo.broadcast_in_dim %2, dims = [1] : (tensor<8xf32>) -> tensor<2x8xf32>
    %24 = stablehlo.add %22, %23 : tensor<2x8xf32>
    return %24 : tensor<2x8xf32>
  }
}
