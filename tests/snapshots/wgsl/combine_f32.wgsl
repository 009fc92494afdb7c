@group(0) @binding(3) var<storage, read_write> v13: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> v9: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> v5: array<f32>;
@group(0) @binding(0) var<storage, read> v1: array<u32>;
struct info_st { scalars_usize: array<u32, 2>, scalars_u32: array<u32, 2>, static_meta: array<u32, 4> }
@group(0) @binding(4) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn combine_f32(@builtin(workgroup_id) v162: vec3<u32>, @builtin(num_workgroups) v164: vec3<u32>, @builtin(local_invocation_index) v171: u32) {
let v201 = &v13;
let v202 = &v9;
let v203 = &v5;
let v204 = &v1;
let v3 = u32(0);
let v67 = info_var.static_meta[3];
let v17 = info_var.scalars_usize[0];
let v18 = info_var.scalars_u32[0];
let v19 = info_var.scalars_usize[1];
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
let v22 = v92 < v67;
if v22 {
let v24 = v92 / v17;
let v26 = v92 % v17;
let v27 = f32(0.0);
let v28 = vec4<f32>(v27);
var<function> v68_store: vec4<f32>;
let v68 = &v68_store;
*v68 = v28;
let v31 = u32(1);
for(var v32: u32 = v3; v32 < v19; v32 += v31) {
let v34 = v24 * v19;
let v35 = v34 + v32;
let v39 = &(*v204)[v35];
let v40 = *v39;
let v41 = v40 < v18;
if v41 {
let v42 = v35 * v17;
let v43 = v42 + v26;
let v47 = &(*v202)[v43];
let v48 = *v47;
let v52 = &(*v203)[v35];
let v53 = *v52;
let v54 = vec4<f32>(v53);
let v55 = *v68;
let v56 = fma(v54, v48, v55);
*v68 = v56;

}

}
let v57 = *v68;
let v62 = &(*v201)[v92];
*v62 = v57;

}
return;

}
