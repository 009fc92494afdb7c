enable f16;
@group(0) @binding(3) var<storage, read_write> v13: array<vec4<f16>>;
@group(0) @binding(2) var<storage, read> v9: array<vec4<f16>>;
@group(0) @binding(1) var<storage, read> v5: array<f32>;
@group(0) @binding(0) var<storage, read> v1: array<u32>;
struct info_st { scalars_usize: array<u32, 2>, scalars_u32: array<u32, 2>, static_meta: array<u32, 4> }
@group(0) @binding(4) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn combine_f16(@builtin(workgroup_id) v164: vec3<u32>, @builtin(num_workgroups) v166: vec3<u32>, @builtin(local_invocation_index) v173: u32) {
let v203 = &v13;
let v204 = &v9;
let v205 = &v5;
let v206 = &v1;
let v3 = u32(0);
let v69 = info_var.static_meta[3];
let v17 = info_var.scalars_usize[0];
let v18 = info_var.scalars_u32[0];
let v19 = info_var.scalars_usize[1];
let v165 = v164[2];
let v73 = u32(v165);
let v167 = v166[1];
let v75 = u32(v167);
let v76 = v73 * v75;
let v168 = v166[0];
let v78 = u32(v168);
let v79 = v76 * v78;
let v169 = v164[1];
let v81 = u32(v169);
let v84 = v81 * v78;
let v85 = v79 + v84;
let v171 = v164[0];
let v87 = u32(v171);
let v88 = v85 + v87;
let v199 = u32(64);
let v91 = v88 * v199;
let v174 = v173;
let v93 = u32(v174);
let v94 = v91 + v93;
let v22 = v94 < v69;
if v22 {
let v24 = v94 / v17;
let v26 = v94 % v17;
let v27 = f32(0.0);
let v28 = vec4<f32>(v27);
var<function> v70_store: vec4<f32>;
let v70 = &v70_store;
*v70 = v28;
let v31 = u32(1);
for(var v32: u32 = v3; v32 < v19; v32 += v31) {
let v34 = v24 * v19;
let v35 = v34 + v32;
let v39 = &(*v206)[v35];
let v40 = *v39;
let v41 = v40 < v18;
if v41 {
let v42 = v35 * v17;
let v43 = v42 + v26;
let v47 = &(*v204)[v43];
let v48 = *v47;
let v49 = vec4<f32>(v48);
let v53 = &(*v205)[v35];
let v54 = *v53;
let v55 = vec4<f32>(v54);
let v56 = *v70;
let v57 = fma(v55, v49, v56);
*v70 = v57;

}

}
let v58 = *v70;
let v59 = vec4<f16>(v58);
let v64 = &(*v203)[v94];
*v64 = v59;

}
return;

}
