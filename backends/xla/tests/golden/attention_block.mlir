module @moebius attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%0: tensor<1x3x4xf32>, %1: tensor<4x4xf32>, %2: tensor<4x4xf32>, %3: tensor<4x4xf32>, %4: tensor<4x4xf32>) -> (tensor<1x3x4xf32>) {
    %5 = stablehlo.reshape %1 : (tensor<4x4xf32>) -> tensor<1x4x4xf32>
    %6 = stablehlo.reshape %5 : (tensor<1x4x4xf32>) -> tensor<4x4xf32>
    %7 = stablehlo.dot_general %0, %6, contracting_dims = [2] x [0], precision = [HIGHEST, HIGHEST] : (tensor<1x3x4xf32>, tensor<4x4xf32>) -> tensor<1x3x4xf32>
    %8 = stablehlo.reshape %7 : (tensor<1x3x4xf32>) -> tensor<1x3x2x2xf32>
    %9 = stablehlo.transpose %8, dims = [0, 2, 1, 3] : (tensor<1x3x2x2xf32>) -> tensor<1x2x3x2xf32>
    %10 = stablehlo.reshape %2 : (tensor<4x4xf32>) -> tensor<1x4x4xf32>
    %11 = stablehlo.reshape %10 : (tensor<1x4x4xf32>) -> tensor<4x4xf32>
    %12 = stablehlo.dot_general %0, %11, contracting_dims = [2] x [0], precision = [HIGHEST, HIGHEST] : (tensor<1x3x4xf32>, tensor<4x4xf32>) -> tensor<1x3x4xf32>
    %13 = stablehlo.reshape %12 : (tensor<1x3x4xf32>) -> tensor<1x3x2x2xf32>
    %14 = stablehlo.transpose %13, dims = [0, 2, 1, 3] : (tensor<1x3x2x2xf32>) -> tensor<1x2x3x2xf32>
    %15 = stablehlo.reshape %3 : (tensor<4x4xf32>) -> tensor<1x4x4xf32>
    %16 = stablehlo.reshape %15 : (tensor<1x4x4xf32>) -> tensor<4x4xf32>
    %17 = stablehlo.dot_general %0, %16, contracting_dims = [2] x [0], precision = [HIGHEST, HIGHEST] : (tensor<1x3x4xf32>, tensor<4x4xf32>) -> tensor<1x3x4xf32>
    %18 = stablehlo.reshape %17 : (tensor<1x3x4xf32>) -> tensor<1x3x2x2xf32>
    %19 = stablehlo.transpose %18, dims = [0, 2, 1, 3] : (tensor<1x3x2x2xf32>) -> tensor<1x2x3x2xf32>
    %20 = stablehlo.dot_general %9, %14, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3], precision = [HIGHEST, HIGHEST] : (tensor<1x2x3x2xf32>, tensor<1x2x3x2xf32>) -> tensor<1x2x3x3xf32>
    %21 = stablehlo.constant dense<7.071067811865475e-1> : tensor<1x2x3x3xf32>
    %22 = stablehlo.multiply %20, %21 : tensor<1x2x3x3xf32>
    %23 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %24 = stablehlo.reduce(%22 init: %23) applies stablehlo.maximum across dimensions = [3] : (tensor<1x2x3x3xf32>, tensor<f32>) -> tensor<1x2x3xf32>
    %25 = stablehlo.reshape %24 : (tensor<1x2x3xf32>) -> tensor<1x2x3x1xf32>
    %26 = stablehlo.constant dense<-3.4028234663852886e38> : tensor<1x2x3x1xf32>
    %27 = stablehlo.maximum %25, %26 : tensor<1x2x3x1xf32>
    %28 = stablehlo.broadcast_in_dim %27, dims = [0, 1, 2, 3] : (tensor<1x2x3x1xf32>) -> tensor<1x2x3x3xf32>
    %29 = stablehlo.subtract %22, %28 : tensor<1x2x3x3xf32>
    %30 = stablehlo.exponential %29 : tensor<1x2x3x3xf32>
    %31 = stablehlo.constant dense<0.0e0> : tensor<f32>
    %32 = stablehlo.reduce(%30 init: %31) applies stablehlo.add across dimensions = [3] : (tensor<1x2x3x3xf32>, tensor<f32>) -> tensor<1x2x3xf32>
    %33 = stablehlo.reshape %32 : (tensor<1x2x3xf32>) -> tensor<1x2x3x1xf32>
    %34 = stablehlo.constant dense<1.1754943508222875e-38> : tensor<1x2x3x1xf32>
    %35 = stablehlo.maximum %33, %34 : tensor<1x2x3x1xf32>
    %36 = stablehlo.broadcast_in_dim %35, dims = [0, 1, 2, 3] : (tensor<1x2x3x1xf32>) -> tensor<1x2x3x3xf32>
    %37 = stablehlo.divide %30, %36 : tensor<1x2x3x3xf32>
    %38 = stablehlo.dot_general %37, %19, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2], precision = [HIGHEST, HIGHEST] : (tensor<1x2x3x3xf32>, tensor<1x2x3x2xf32>) -> tensor<1x2x3x2xf32>
    %39 = stablehlo.transpose %38, dims = [0, 2, 1, 3] : (tensor<1x2x3x2xf32>) -> tensor<1x3x2x2xf32>
    %40 = stablehlo.reshape %39 : (tensor<1x3x2x2xf32>) -> tensor<1x3x4xf32>
    %41 = stablehlo.reshape %4 : (tensor<4x4xf32>) -> tensor<1x4x4xf32>
    %42 = stablehlo.reshape %41 : (tensor<1x4x4xf32>) -> tensor<4x4xf32>
    %43 = stablehlo.dot_general %40, %42, contracting_dims = [2] x [0], precision = [HIGHEST, HIGHEST] : (tensor<1x3x4xf32>, tensor<4x4xf32>) -> tensor<1x3x4xf32>
    %44 = stablehlo.add %0, %43 : tensor<1x3x4xf32>
    return %44 : tensor<1x3x4xf32>
  }
}
