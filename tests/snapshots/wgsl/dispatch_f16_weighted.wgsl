enable f16;
@group(0) @binding(4) var<storage, read_write> v17: array<vec4<f16>>;
@group(0) @binding(3) var<storage, read> v13: array<vec4<f16>>;
@group(0) @binding(2) var<storage, read> v9: array<f32>;
@group(0) @binding(1) var<storage, read> v5: array<u32>;
@group(0) @binding(0) var<storage, read> v1: array<u32>;
struct info_st { scalars_usize: array<u32, 4>, static_meta: array<u32, 6> }
@group(0) @binding(5) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn dispatch_f16_weighted(@builtin(workgroup_id) v169: vec3<u32>, @builtin(num_workgroups) v171: vec3<u32>, @builtin(local_invocation_index) v178: u32) {
let v208 = &v17;
let v209 = &v13;
let v210 = &v9;
let v211 = &v5;
let v212 = &v1;
let v75 = info_var.static_meta[4];
let v21 = info_var.scalars_usize[0];
let v22 = info_var.scalars_usize[1];
let v23 = info_var.scalars_usize[2];
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
let v26 = v99 < v75;
if v26 {
let v28 = v99 / v21;
let v30 = v99 % v21;
let v31 = f32(0.0);
let v32 = vec4<f32>(v31);
var<function> v76_store: vec4<f32>;
let v76 = &v76_store;
*v76 = v32;
let v37 = &(*v211)[v22];
let v38 = *v37;
let v39 = u32(v38);
let v40 = v28 < v39;
if v40 {
let v44 = &(*v212)[v28];
let v45 = *v44;
let v46 = u32(v45);
let v50 = &(*v210)[v46];
let v51 = *v50;
let v52 = vec4<f32>(v51);
let v53 = v46 / v23;
let v54 = v53 * v21;
let v55 = v54 + v30;
let v59 = &(*v209)[v55];
let v60 = *v59;
let v61 = vec4<f32>(v60);
let v62 = v52 * v61;
*v76 = v62;

}
let v63 = *v76;
let v64 = vec4<f16>(v63);
let v69 = &(*v208)[v99];
*v69 = v64;

}
return;

}
