@group(0) @binding(2) var<storage, read_write> v9: array<f32>;
@group(0) @binding(1) var<storage, read> v5: array<f32>;
@group(0) @binding(0) var<storage, read> v1: array<f32>;
struct info_st { scalars_usize: array<u32, 8>, static_meta: array<u32, 4> }
@group(0) @binding(3) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn grouped_gemm_naive_f32_dense(@builtin(workgroup_id) v100: vec3<u32>, @builtin(local_invocation_id) v104: vec3<u32>) {
let v107 = &v9;
let v108 = &v5;
let v109 = &v1;
let v3 = u32(0);
let v13 = info_var.scalars_usize[0];
let v14 = info_var.scalars_usize[1];
let v19 = info_var.scalars_usize[6];
let v20 = info_var.scalars_usize[7];
let v101 = v100[0];
let v22 = u32(v101);
let v23 = u32(1);
let v102 = v100[1];
let v103 = u32(64);
let v30 = v102 * v103;
let v105 = v104[0];
let v32 = v30 + v105;
let v33 = u32(v32);
let v35 = v3 >= v19;
let v37 = v3 < v20;
let v38 = v35 && v37;
let v39 = v33 < v13;
let v40 = v38 && v39;
if v40 {
let v41 = v22 * v14;
let v42 = f32(1.0);
var<function> v96_store: f32;
let v96 = &v96_store;
*v96 = v42;
let v46 = v3 - v19;
let v47 = v46 * v13;
let v53 = v47 + v33;
let v54 = v53 * v14;
let v55 = f32(0.0);
var<function> v97_store: f32;
let v97 = &v97_store;
*v97 = v55;
for(var v60: u32 = v3; v60 < v14; v60 += v23) {
let v62 = v41 + v60;
let v66 = &(*v109)[v62];
let v67 = *v66;
let v70 = v54 + v60;
let v74 = &(*v108)[v70];
let v75 = *v74;
let v76 = *v97;
let v77 = fma(v67, v75, v76);
*v97 = v77;

}
var<function> v99_store: f32;
let v99 = &v99_store;
let v79 = *v97;
*v99 = v79;
let v80 = *v99;
let v83 = *v96;
let v84 = v83 * v80;
*v96 = v84;
let v85 = *v96;
let v86 = v22 * v13;
let v87 = v86 + v33;
let v91 = &(*v107)[v87];
*v91 = v85;

}
return;

}
