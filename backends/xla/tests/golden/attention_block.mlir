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
    %20 = stablehlo.constant dense<0.0e0> : tensor<f32>
    %21 = stablehlo.constant dense<0.0e0> : tensor<f32>
    %22 = stablehlo.reshape %14 : (tensor<1x2x3x2xf32>) -> tensor<2x3x2xf32>
    %23 = stablehlo.constant dense<0.0e0> : tensor<f32>
    %24 = stablehlo.reshape %19 : (tensor<1x2x3x2xf32>) -> tensor<2x3x2xf32>
    %25 = stablehlo.constant dense<0.0e0> : tensor<1x2x3x2xf32>
    %26 = stablehlo.constant dense<0.0e0> : tensor<1x2x3xf32>
    %27 = stablehlo.constant dense<0> : tensor<i32>
    %28 = stablehlo.reshape %9 : (tensor<1x2x3x2xf32>) -> tensor<2x3x2xf32>
    %29 = stablehlo.constant dense<0.0e0> : tensor<1x2x3x2xf32>
    %30 = stablehlo.constant dense<0xFF800000> : tensor<1x2x3xf32>
    %31 = stablehlo.constant dense<0.0e0> : tensor<1x2x3xf32>
    %32 = stablehlo.constant dense<0> : tensor<i32>
    %33 = stablehlo.dot_general %28, %22, batching_dims = [0] x [0], contracting_dims = [2] x [2], precision = [HIGHEST, HIGHEST] : (tensor<2x3x2xf32>, tensor<2x3x2xf32>) -> tensor<2x3x3xf32>
    %34 = stablehlo.reshape %33 : (tensor<2x3x3xf32>) -> tensor<1x2x3x3xf32>
    %35 = stablehlo.constant dense<7.071067811865475e-1> : tensor<1x2x3x3xf32>
    %36 = stablehlo.multiply %34, %35 : tensor<1x2x3x3xf32>
    %37 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %38 = stablehlo.reduce(%36 init: %37) applies stablehlo.maximum across dimensions = [3] : (tensor<1x2x3x3xf32>, tensor<f32>) -> tensor<1x2x3xf32>
    %39 = stablehlo.maximum %30, %38 : tensor<1x2x3xf32>
    %40 = stablehlo.constant dense<0xFF800000> : tensor<1x2x3xf32>
    %41 = stablehlo.compare EQ, %39, %40, FLOAT : (tensor<1x2x3xf32>, tensor<1x2x3xf32>) -> tensor<1x2x3xi1>
    %42 = stablehlo.constant dense<0.0e0> : tensor<1x2x3xf32>
    %43 = stablehlo.select %41, %42, %39 : tensor<1x2x3xi1>, tensor<1x2x3xf32>
    %44 = stablehlo.broadcast_in_dim %43, dims = [0, 1, 2] : (tensor<1x2x3xf32>) -> tensor<1x2x3x3xf32>
    %45 = stablehlo.subtract %36, %44 : tensor<1x2x3x3xf32>
    %46 = stablehlo.exponential %45 : tensor<1x2x3x3xf32>
    %47 = stablehlo.subtract %30, %43 : tensor<1x2x3xf32>
    %48 = stablehlo.exponential %47 : tensor<1x2x3xf32>
    %49 = stablehlo.constant dense<0.0e0> : tensor<f32>
    %50 = stablehlo.reduce(%46 init: %49) applies stablehlo.add across dimensions = [3] : (tensor<1x2x3x3xf32>, tensor<f32>) -> tensor<1x2x3xf32>
    %51 = stablehlo.multiply %31, %48 : tensor<1x2x3xf32>
    %52 = stablehlo.add %51, %50 : tensor<1x2x3xf32>
    %53 = stablehlo.broadcast_in_dim %48, dims = [0, 1, 2] : (tensor<1x2x3xf32>) -> tensor<1x2x3x2xf32>
    %54 = stablehlo.multiply %29, %53 : tensor<1x2x3x2xf32>
    %55 = stablehlo.reshape %46 : (tensor<1x2x3x3xf32>) -> tensor<2x3x3xf32>
    %56 = stablehlo.dot_general %55, %24, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [HIGHEST, HIGHEST] : (tensor<2x3x3xf32>, tensor<2x3x2xf32>) -> tensor<2x3x2xf32>
    %57 = stablehlo.reshape %56 : (tensor<2x3x2xf32>) -> tensor<1x2x3x2xf32>
    %58 = stablehlo.add %54, %57 : tensor<1x2x3x2xf32>
    %59 = stablehlo.constant dense<0.0e0> : tensor<1x2x3xf32>
    %60 = stablehlo.compare EQ, %52, %59, FLOAT : (tensor<1x2x3xf32>, tensor<1x2x3xf32>) -> tensor<1x2x3xi1>
    %61 = stablehlo.constant dense<1.0e0> : tensor<1x2x3xf32>
    %62 = stablehlo.select %60, %61, %52 : tensor<1x2x3xi1>, tensor<1x2x3xf32>
    %63 = stablehlo.broadcast_in_dim %62, dims = [0, 1, 2] : (tensor<1x2x3xf32>) -> tensor<1x2x3x2xf32>
    %64 = stablehlo.divide %58, %63 : tensor<1x2x3x2xf32>
    %65 = stablehlo.log %62 : tensor<1x2x3xf32>
    %66 = stablehlo.add %39, %65 : tensor<1x2x3xf32>
    %67 = stablehlo.constant dense<-3.4028234663852886e38> : tensor<1x2x3xf32>
    %68 = stablehlo.select %60, %67, %66 : tensor<1x2x3xi1>, tensor<1x2x3xf32>
    %69 = stablehlo.transpose %64, dims = [0, 2, 1, 3] : (tensor<1x2x3x2xf32>) -> tensor<1x3x2x2xf32>
    %70 = stablehlo.reshape %69 : (tensor<1x3x2x2xf32>) -> tensor<1x3x4xf32>
    %71 = stablehlo.reshape %4 : (tensor<4x4xf32>) -> tensor<1x4x4xf32>
    %72 = stablehlo.reshape %71 : (tensor<1x4x4xf32>) -> tensor<4x4xf32>
    %73 = stablehlo.dot_general %70, %72, contracting_dims = [2] x [0], precision = [HIGHEST, HIGHEST] : (tensor<1x3x4xf32>, tensor<4x4xf32>) -> tensor<1x3x4xf32>
    %74 = stablehlo.add %0, %73 : tensor<1x3x4xf32>
    return %74 : tensor<1x3x4xf32>
  }
}
