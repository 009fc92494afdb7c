@group(0) @binding(4) var<storage, read_write> v17: array<f32>;
@group(0) @binding(3) var<storage, read> v13: array<u32>;
@group(0) @binding(2) var<storage, read> v9: array<u32>;
@group(0) @binding(1) var<storage, read> v5: array<f32>;
@group(0) @binding(0) var<storage, read> v1: array<f32>;
struct info_st { scalars_usize: array<u32, 4>, static_meta: array<u32, 6> }
@group(0) @binding(5) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn weight_gradient_naive_f32(@builtin(workgroup_id) v99: vec3<u32>, @builtin(local_invocation_id) v102: vec3<u32>) {
let v107 = &v17;
let v108 = &v13;
let v109 = &v9;
let v110 = &v5;
let v111 = &v1;
let v21 = info_var.scalars_usize[0];
let v22 = info_var.scalars_usize[1];
let v23 = info_var.scalars_usize[2];
let v24 = info_var.scalars_usize[3];
let v100 = v99[0];
let v101 = u32(64);
let v27 = v100 * v101;
let v103 = v102[0];
let v29 = v27 + v103;
let v30 = u32(v29);
let v104 = v99[1];
let v32 = u32(v104);
let v105 = v99[2];
let v34 = u32(v105);
let v35 = v24 + v34;
let v36 = v30 < v22;
if v36 {
let v37 = f32(0.0);
var<function> v97_store: f32;
let v97 = &v97_store;
*v97 = v37;
let v43 = &(*v108)[v35];
let v44 = *v43;
let v45 = u32(v44);
let v46 = u32(1);
let v47 = v35 + v46;
let v51 = &(*v108)[v47];
let v52 = *v51;
let v53 = u32(v52);
for(var v55: u32 = v45; v55 < v53; v55 += v46) {
let v60 = &(*v109)[v55];
let v61 = *v60;
let v62 = u32(v61);
let v63 = v62 / v23;
let v64 = v55 * v21;
let v65 = v64 + v32;
let v69 = &(*v111)[v65];
let v70 = *v69;
let v71 = v63 * v22;
let v72 = v71 + v30;
let v76 = &(*v110)[v72];
let v77 = *v76;
let v78 = *v97;
let v79 = fma(v70, v77, v78);
*v97 = v79;

}
let v82 = v34 * v21;
let v83 = v82 + v32;
let v84 = v83 * v22;
let v85 = v84 + v30;
let v89 = &(*v107)[v85];
let v90 = *v97;
*v89 = v90;

}
return;

}
