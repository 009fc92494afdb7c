@group(0) @binding(3) var<storage, read_write> v13: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> v9: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> v5: array<u32>;
@group(0) @binding(0) var<storage, read> v1: array<u32>;
struct info_st { scalars_usize: array<u32, 4>, static_meta: array<u32, 4> }
@group(0) @binding(4) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn dispatch_f32(@builtin(workgroup_id) v158: vec3<u32>, @builtin(num_workgroups) v160: vec3<u32>, @builtin(local_invocation_index) v167: u32) {
let v197 = &v13;
let v198 = &v9;
let v199 = &v5;
let v200 = &v1;
let v64 = info_var.static_meta[3];
let v17 = info_var.scalars_usize[0];
let v18 = info_var.scalars_usize[1];
let v19 = info_var.scalars_usize[2];
let v159 = v158[2];
let v67 = u32(v159);
let v161 = v160[1];
let v69 = u32(v161);
let v70 = v67 * v69;
let v162 = v160[0];
let v72 = u32(v162);
let v73 = v70 * v72;
let v163 = v158[1];
let v75 = u32(v163);
let v78 = v75 * v72;
let v79 = v73 + v78;
let v165 = v158[0];
let v81 = u32(v165);
let v82 = v79 + v81;
let v193 = u32(64);
let v85 = v82 * v193;
let v168 = v167;
let v87 = u32(v168);
let v88 = v85 + v87;
let v22 = v88 < v64;
if v22 {
let v24 = v88 / v17;
let v26 = v88 % v17;
let v27 = f32(0.0);
let v28 = vec4<f32>(v27);
var<function> v65_store: vec4<f32>;
let v65 = &v65_store;
*v65 = v28;
let v33 = &(*v199)[v18];
let v34 = *v33;
let v35 = u32(v34);
let v36 = v24 < v35;
if v36 {
let v40 = &(*v200)[v24];
let v41 = *v40;
let v42 = u32(v41);
let v43 = f32(1.0);
let v44 = vec4<f32>(v43);
let v45 = v42 / v19;
let v46 = v45 * v17;
let v47 = v46 + v26;
let v51 = &(*v198)[v47];
let v52 = *v51;
let v53 = v44 * v52;
*v65 = v53;

}
let v54 = *v65;
let v59 = &(*v197)[v88];
*v59 = v54;

}
return;

}
