module @moebius attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%0: tensor<2xui64>) -> (tensor<4xf32>, tensor<4xf32>, tensor<2xui64>) {
    %1, %2 = stablehlo.rng_bit_generator %0, algorithm = THREE_FRY : (tensor<2xui64>) -> (tensor<2xui64>, tensor<4xui32>)
    %3 = stablehlo.constant dense<8> : tensor<4xui32>
    %4 = stablehlo.shift_right_logical %2, %3 : tensor<4xui32>
    %5 = stablehlo.convert %4 : (tensor<4xui32>) -> tensor<4xf32>
    %6 = stablehlo.constant dense<5.960464477539063e-8> : tensor<4xf32>
    %7 = stablehlo.multiply %5, %6 : tensor<4xf32>
    %8 = stablehlo.constant dense<2.0e0> : tensor<4xf32>
    %9 = stablehlo.multiply %7, %8 : tensor<4xf32>
    %10 = stablehlo.constant dense<-1.0e0> : tensor<4xf32>
    %11 = stablehlo.add %9, %10 : tensor<4xf32>
    %12 = stablehlo.constant dense<1.0e0> : tensor<4xf32>
    %13 = stablehlo.compare GE, %11, %12, FLOAT : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
    %14 = stablehlo.constant dense<-1.0e0> : tensor<4xf32>
    %15 = stablehlo.select %13, %14, %11 : tensor<4xi1>, tensor<4xf32>
    %16, %17 = stablehlo.rng_bit_generator %1, algorithm = THREE_FRY : (tensor<2xui64>) -> (tensor<2xui64>, tensor<4xui32>)
    %18 = stablehlo.constant dense<9> : tensor<4xui32>
    %19 = stablehlo.shift_right_logical %17, %18 : tensor<4xui32>
    %20 = stablehlo.convert %19 : (tensor<4xui32>) -> tensor<4xf32>
    %21 = stablehlo.constant dense<5.0e-1> : tensor<4xf32>
    %22 = stablehlo.add %20, %21 : tensor<4xf32>
    %23 = stablehlo.constant dense<2.384185791015625e-7> : tensor<4xf32>
    %24 = stablehlo.multiply %22, %23 : tensor<4xf32>
    %25 = stablehlo.constant dense<1.0e0> : tensor<4xf32>
    %26 = stablehlo.subtract %24, %25 : tensor<4xf32>
    %27 = chlo.erf_inv %26 : tensor<4xf32> -> tensor<4xf32>
    %28 = stablehlo.constant dense<1.4142135623730951e0> : tensor<4xf32>
    %29 = stablehlo.multiply %27, %28 : tensor<4xf32>
    %30 = stablehlo.constant dense<1.0e0> : tensor<4xf32>
    %31 = stablehlo.multiply %29, %30 : tensor<4xf32>
    %32 = stablehlo.constant dense<0.0e0> : tensor<4xf32>
    %33 = stablehlo.add %31, %32 : tensor<4xf32>
    return %15, %33, %16 : tensor<4xf32>, tensor<4xf32>, tensor<2xui64>
  }
}
