@group(0) @binding(2) var<storage, read_write> v9: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> v5: array<u32>;
@group(0) @binding(0) var<storage, read> v1: array<vec4<f32>>;
struct info_st { scalars_usize: array<u32, 2>, static_meta: array<u32, 4> }
@group(0) @binding(3) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn expert_activation_f32_gated_silu(@builtin(workgroup_id) v159: vec3<u32>, @builtin(num_workgroups) v161: vec3<u32>, @builtin(local_invocation_index) v168: u32) {
let v198 = &v9;
let v199 = &v5;
let v200 = &v1;
let v65 = info_var.static_meta[2];
let v13 = info_var.scalars_usize[0];
let v14 = info_var.scalars_usize[1];
let v160 = v159[2];
let v68 = u32(v160);
let v162 = v161[1];
let v70 = u32(v162);
let v71 = v68 * v70;
let v163 = v161[0];
let v73 = u32(v163);
let v74 = v71 * v73;
let v164 = v159[1];
let v76 = u32(v164);
let v79 = v76 * v73;
let v80 = v74 + v79;
let v166 = v159[0];
let v82 = u32(v166);
let v83 = v80 + v82;
let v194 = u32(64);
let v86 = v83 * v194;
let v169 = v168;
let v88 = u32(v169);
let v89 = v86 + v88;
let v17 = v89 < v65;
if v17 {
let v19 = v89 / v14;
let v21 = v89 % v14;
let v22 = f32(0.0);
let v23 = vec4<f32>(v22);
var<function> v66_store: vec4<f32>;
let v66 = &v66_store;
*v66 = v23;
let v28 = &(*v199)[v13];
let v29 = *v28;
let v30 = u32(v29);
let v31 = v19 < v30;
if v31 {
let v32 = v19 * v14;
let v33 = u32(2);
let v34 = v32 * v33;
let v35 = v34 + v21;
let v39 = &(*v200)[v35];
let v40 = *v39;
let v43 = f32(1.0);
let v44 = vec4<f32>(v43);
let v45 = -v40;
let v46 = exp(v45);
let v47 = v44 + v46;
let v48 = v40 / v47;
let v49 = v35 + v14;
let v53 = &(*v200)[v49];
let v54 = *v53;
let v55 = v48 * v54;
*v66 = v55;

}
let v56 = *v66;
let v61 = &(*v198)[v89];
*v61 = v56;

}
return;

}
