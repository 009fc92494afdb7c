module @moebius attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%0: tensor<2x5xf32>) -> (tensor<2x5xf32>, tensor<2x2xf32>, tensor<2x2xi64>) {
    %4 = "stablehlo.sort"(%0) <{dimension = 1 : i64, is_stable = true}> ({
    ^bb0(%1: tensor<f32>, %2: tensor<f32>):
      %3 = stablehlo.compare LT, %1, %2, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %3 : tensor<i1>
    }) : (tensor<2x5xf32>) -> (tensor<2x5xf32>)
    %5 = stablehlo.iota dim = 1 : tensor<2x5xi32>
    %11, %12 = "stablehlo.sort"(%0, %5) <{dimension = 1 : i64, is_stable = true}> ({
    ^bb0(%6: tensor<f32>, %7: tensor<f32>, %8: tensor<i32>, %9: tensor<i32>):
      %10 = stablehlo.compare GT, %6, %7, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %10 : tensor<i1>
    }) : (tensor<2x5xf32>, tensor<2x5xi32>) -> (tensor<2x5xf32>, tensor<2x5xi32>)
    %13 = stablehlo.slice %11 [0:2, 0:2] : (tensor<2x5xf32>) -> tensor<2x2xf32>
    %14 = stablehlo.slice %12 [0:2, 0:2] : (tensor<2x5xi32>) -> tensor<2x2xi32>
    %15 = stablehlo.convert %14 : (tensor<2x2xi32>) -> tensor<2x2xi64>
    return %4, %13, %15 : tensor<2x5xf32>, tensor<2x2xf32>, tensor<2x2xi64>
  }
}
