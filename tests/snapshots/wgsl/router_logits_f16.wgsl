enable f16;
@group(0) @binding(2) var<storage, read_write> v9: array<f32>;
@group(0) @binding(1) var<storage, read> v5: array<vec4<f16>>;
@group(0) @binding(0) var<storage, read> v1: array<vec4<f16>>;
struct info_st { scalars_usize: array<u32, 2>, static_meta: array<u32, 4> }
@group(0) @binding(3) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn router_logits_f16(@builtin(workgroup_id) v169: vec3<u32>, @builtin(num_workgroups) v171: vec3<u32>, @builtin(local_invocation_index) v178: u32) {
let v208 = &v9;
let v209 = &v5;
let v210 = &v1;
let v3 = u32(0);
let v57 = info_var.static_meta[2];
let v13 = info_var.scalars_usize[0];
let v14 = info_var.scalars_usize[1];
let v170 = v169[2];
let v78 = u32(v170);
let v172 = v171[1];
let v80 = u32(v172);
let v81 = v78 * v80;
let v173 = v171[0];
let v83 = u32(v173);
let v84 = v81 * v83;
let v174 = v169[1];
let v86 = u32(v174);
let v89 = v86 * v83;
let v90 = v84 + v89;
let v176 = v169[0];
let v92 = u32(v176);
let v93 = v90 + v92;
let v204 = u32(64);
let v96 = v93 * v204;
let v179 = v178;
let v98 = u32(v179);
let v99 = v96 + v98;
let v17 = v99 < v57;
if v17 {
let v19 = v99 / v13;
let v21 = v99 % v13;
let v22 = f32(0.0);
let v23 = vec4<f32>(v22);
var<function> v58_store: vec4<f32>;
let v58 = &v58_store;
*v58 = v23;
let v26 = u32(1);
for(var v27: u32 = v3; v27 < v14; v27 += v26) {
let v29 = v19 * v14;
let v30 = v29 + v27;
let v34 = &(*v210)[v30];
let v35 = *v34;
let v36 = vec4<f32>(v35);
let v37 = v21 * v14;
let v38 = v37 + v27;
let v42 = &(*v209)[v38];
let v43 = *v42;
let v44 = vec4<f32>(v43);
let v45 = *v58;
let v46 = fma(v36, v44, v45);
*v58 = v46;

}
let v47 = *v58;
var<function> v76_store: f32;
let v76 = &v76_store;
*v76 = v22;
let v63 = v47[0];
let v64 = *v76;
let v65 = v64 + v63;
*v76 = v65;
let v66 = v47[1];
let v67 = *v76;
let v68 = v67 + v66;
*v76 = v68;
let v69 = v47[2];
let v70 = *v76;
let v71 = v70 + v69;
*v76 = v71;
let v72 = v47[3];
let v73 = *v76;
let v74 = v73 + v72;
*v76 = v74;
let v75 = *v76;
let v53 = &(*v208)[v99];
*v53 = v75;

}
return;

}
