@group(0) @binding(3) var<storage, read_write> v13: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> v9: array<u32>;
@group(0) @binding(1) var<storage, read> v5: array<vec4<f32>>;
@group(0) @binding(0) var<storage, read> v1: array<vec4<f32>>;
struct info_st { scalars_usize: array<u32, 2>, static_meta: array<u32, 4> }
@group(0) @binding(4) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn expert_activation_gradient_f32_mish(@builtin(workgroup_id) v208: vec3<u32>, @builtin(num_workgroups) v210: vec3<u32>, @builtin(local_invocation_index) v217: u32) {
let v249 = &v13;
let v250 = &v9;
let v251 = &v5;
let v252 = &v1;
let v113 = info_var.static_meta[1];
let v17 = info_var.scalars_usize[0];
let v18 = info_var.scalars_usize[1];
let v209 = v208[2];
let v117 = u32(v209);
let v211 = v210[1];
let v119 = u32(v211);
let v120 = v117 * v119;
let v212 = v210[0];
let v122 = u32(v212);
let v123 = v120 * v122;
let v213 = v208[1];
let v125 = u32(v213);
let v128 = v125 * v122;
let v129 = v123 + v128;
let v215 = v208[0];
let v131 = u32(v215);
let v132 = v129 + v131;
let v243 = u32(64);
let v135 = v132 * v243;
let v218 = v217;
let v137 = u32(v218);
let v138 = v135 + v137;
let v21 = v138 < v113;
if v21 {
let v23 = v138 / v18;
let v24 = v23 * v18;
let v28 = v138 % v18;
let v29 = v24 + v28;
let v33 = &(*v250)[v17];
let v34 = *v33;
let v35 = u32(v34);
let v36 = v23 < v35;
if v36 {
let v41 = &(*v251)[v138];
let v42 = *v41;
let v46 = &(*v252)[v29];
let v47 = *v46;
let v50 = f32(1.0);
let v51 = vec4<f32>(v50);
let v52 = f32(20.0);
let v53 = vec4<f32>(v52);
let v54 = v47 < v53;
let v55 = select(v53, v47, v54);
let v56 = exp(v55);
let v57 = f32(2.0);
let v58 = vec4<f32>(v57);
let v59 = v56 + v58;
let v60 = v56 * v59;
let v64 = v60 + v58;
let v83 = v53 < v47;
let v84 = select(v47, v53, v83);
let v85 = f32(4.0);
let v86 = vec4<f32>(v85);
let v90 = v86 * v56;
let v91 = v51 + v56;
let v92 = v90 * v91;
let v93 = v92 / v64;
let v248 = fma(v84, v93, v60);
let v96 = v248 / v64;
let v97 = v42 * v96;
let v101 = &(*v249)[v29];
*v101 = v97;

} else {
let v102 = f32(0.0);
let v103 = vec4<f32>(v102);
let v110 = &(*v249)[v29];
*v110 = v103;

}

}
return;

}
