@group(0) @binding(2) var<storage, read_write> v9: array<f32>;
@group(0) @binding(1) var<storage, read> v5: array<vec4<f32>>;
@group(0) @binding(0) var<storage, read> v1: array<vec4<f32>>;
struct info_st { scalars_usize: array<u32, 2>, static_meta: array<u32, 4> }
@group(0) @binding(3) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn router_logits_f32(@builtin(workgroup_id) v167: vec3<u32>, @builtin(num_workgroups) v169: vec3<u32>, @builtin(local_invocation_index) v176: u32) {
let v206 = &v9;
let v207 = &v5;
let v208 = &v1;
let v3 = u32(0);
let v55 = info_var.static_meta[2];
let v13 = info_var.scalars_usize[0];
let v14 = info_var.scalars_usize[1];
let v168 = v167[2];
let v76 = u32(v168);
let v170 = v169[1];
let v78 = u32(v170);
let v79 = v76 * v78;
let v171 = v169[0];
let v81 = u32(v171);
let v82 = v79 * v81;
let v172 = v167[1];
let v84 = u32(v172);
let v87 = v84 * v81;
let v88 = v82 + v87;
let v174 = v167[0];
let v90 = u32(v174);
let v91 = v88 + v90;
let v202 = u32(64);
let v94 = v91 * v202;
let v177 = v176;
let v96 = u32(v177);
let v97 = v94 + v96;
let v17 = v97 < v55;
if v17 {
let v19 = v97 / v13;
let v21 = v97 % v13;
let v22 = f32(0.0);
let v23 = vec4<f32>(v22);
var<function> v56_store: vec4<f32>;
let v56 = &v56_store;
*v56 = v23;
let v26 = u32(1);
for(var v27: u32 = v3; v27 < v14; v27 += v26) {
let v29 = v19 * v14;
let v30 = v29 + v27;
let v34 = &(*v208)[v30];
let v35 = *v34;
let v36 = v21 * v14;
let v37 = v36 + v27;
let v41 = &(*v207)[v37];
let v42 = *v41;
let v43 = *v56;
let v44 = fma(v35, v42, v43);
*v56 = v44;

}
let v45 = *v56;
var<function> v74_store: f32;
let v74 = &v74_store;
*v74 = v22;
let v61 = v45[0];
let v62 = *v74;
let v63 = v62 + v61;
*v74 = v63;
let v64 = v45[1];
let v65 = *v74;
let v66 = v65 + v64;
*v74 = v66;
let v67 = v45[2];
let v68 = *v74;
let v69 = v68 + v67;
*v74 = v69;
let v70 = v45[3];
let v71 = *v74;
let v72 = v71 + v70;
*v74 = v72;
let v73 = *v74;
let v51 = &(*v206)[v97];
*v51 = v73;

}
return;

}
