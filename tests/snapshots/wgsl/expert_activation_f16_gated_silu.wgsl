enable f16;
@group(0) @binding(2) var<storage, read_write> v9: array<vec4<f16>>;
@group(0) @binding(1) var<storage, read> v5: array<u32>;
@group(0) @binding(0) var<storage, read> v1: array<vec4<f16>>;
struct info_st { scalars_usize: array<u32, 2>, static_meta: array<u32, 4> }
@group(0) @binding(3) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn expert_activation_f16_gated_silu(@builtin(workgroup_id) v162: vec3<u32>, @builtin(num_workgroups) v164: vec3<u32>, @builtin(local_invocation_index) v171: u32) {
let v201 = &v9;
let v202 = &v5;
let v203 = &v1;
let v68 = info_var.static_meta[2];
let v13 = info_var.scalars_usize[0];
let v14 = info_var.scalars_usize[1];
let v163 = v162[2];
let v71 = u32(v163);
let v165 = v164[1];
let v73 = u32(v165);
let v74 = v71 * v73;
let v166 = v164[0];
let v76 = u32(v166);
let v77 = v74 * v76;
let v167 = v162[1];
let v79 = u32(v167);
let v82 = v79 * v76;
let v83 = v77 + v82;
let v169 = v162[0];
let v85 = u32(v169);
let v86 = v83 + v85;
let v197 = u32(64);
let v89 = v86 * v197;
let v172 = v171;
let v91 = u32(v172);
let v92 = v89 + v91;
let v17 = v92 < v68;
if v17 {
let v19 = v92 / v14;
let v21 = v92 % v14;
let v22 = f32(0.0);
let v23 = vec4<f32>(v22);
var<function> v69_store: vec4<f32>;
let v69 = &v69_store;
*v69 = v23;
let v28 = &(*v202)[v13];
let v29 = *v28;
let v30 = u32(v29);
let v31 = v19 < v30;
if v31 {
let v32 = v19 * v14;
let v33 = u32(2);
let v34 = v32 * v33;
let v35 = v34 + v21;
let v39 = &(*v203)[v35];
let v40 = *v39;
let v41 = vec4<f32>(v40);
let v44 = f32(1.0);
let v45 = vec4<f32>(v44);
let v46 = -v41;
let v47 = exp(v46);
let v48 = v45 + v47;
let v49 = v41 / v48;
let v50 = v35 + v14;
let v54 = &(*v203)[v50];
let v55 = *v54;
let v56 = vec4<f32>(v55);
let v57 = v49 * v56;
*v69 = v57;

}
let v58 = *v69;
let v59 = vec4<f16>(v58);
let v64 = &(*v201)[v92];
*v64 = v59;

}
return;

}
