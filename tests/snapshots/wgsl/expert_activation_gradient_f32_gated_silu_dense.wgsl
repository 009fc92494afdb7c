@group(0) @binding(2) var<storage, read_write> v9: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> v5: array<vec4<f32>>;
@group(0) @binding(0) var<storage, read> v1: array<vec4<f32>>;
struct info_st { scalars_usize: array<u32, 2>, static_meta: array<u32, 4> }
@group(0) @binding(3) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn expert_activation_gradient_f32_gated_silu_dense(@builtin(workgroup_id) v174: vec3<u32>, @builtin(num_workgroups) v176: vec3<u32>, @builtin(local_invocation_index) v183: u32) {
let v214 = &v9;
let v215 = &v5;
let v216 = &v1;
let v80 = info_var.static_meta[1];
let v14 = info_var.scalars_usize[1];
let v175 = v174[2];
let v83 = u32(v175);
let v177 = v176[1];
let v85 = u32(v177);
let v86 = v83 * v85;
let v178 = v176[0];
let v88 = u32(v178);
let v89 = v86 * v88;
let v179 = v174[1];
let v91 = u32(v179);
let v94 = v91 * v88;
let v95 = v89 + v94;
let v181 = v174[0];
let v97 = u32(v181);
let v98 = v95 + v97;
let v209 = u32(64);
let v101 = v98 * v209;
let v184 = v183;
let v103 = u32(v184);
let v104 = v101 + v103;
let v17 = v104 < v80;
if v17 {
let v19 = v104 / v14;
let v20 = v19 * v14;
let v21 = u32(2);
let v22 = v20 * v21;
let v24 = v104 % v14;
let v25 = v22 + v24;
let v30 = &(*v215)[v104];
let v31 = *v30;
let v35 = &(*v216)[v25];
let v36 = *v35;
let v39 = f32(1.0);
let v40 = vec4<f32>(v39);
let v41 = -v36;
let v42 = exp(v41);
let v43 = v40 + v42;
let v44 = v36 / v43;
let v54 = v40 / v43;
let v55 = v36 * v54;
let v56 = v40 - v54;
let v213 = fma(v55, v56, v54);
let v59 = v31 * v213;
let v60 = v25 + v14;
let v64 = &(*v216)[v60];
let v65 = *v64;
let v66 = v31 * v44;
let v67 = v59 * v65;
let v71 = &(*v214)[v25];
*v71 = v67;
let v76 = &(*v214)[v60];
*v76 = v66;

}
return;

}
