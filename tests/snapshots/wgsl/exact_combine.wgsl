@group(0) @binding(1) var<storage, read_write> v5: array<f32>;
@group(0) @binding(0) var<storage, read> v1: array<f32>;
struct info_st { scalars_usize: array<u32, 2>, scalars_f32: array<f32, 2>, scalars_u32: array<u32, 2>, static_meta: array<u32, 2> }
@group(0) @binding(2) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn exact_combine(@builtin(workgroup_id) v167: vec3<u32>, @builtin(num_workgroups) v169: vec3<u32>, @builtin(local_invocation_index) v176: u32) {
let v206 = &v5;
let v207 = &v1;
let v3 = u32(0);
let v71 = info_var.static_meta[1];
let v9 = info_var.scalars_usize[0];
let v10 = info_var.scalars_usize[1];
let v11 = info_var.scalars_f32[0];
let v12 = info_var.scalars_u32[0];
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
let v15 = v97 < v71;
if v15 {
let v17 = v97 / v10;
let v18 = v17 * v9;
let v20 = v97 % v10;
let v21 = f32(0.0);
var<function> v72_store: f32;
let v72 = &v72_store;
*v72 = v21;
let v25 = u32(1);
for(var v26: u32 = v3; v26 < v9; v26 += v25) {
let v28 = v18 + v26;
let v29 = v28 * v10;
let v30 = v29 + v20;
let v34 = &(*v207)[v30];
let v35 = *v34;
let v36 = bitcast<u32>(v35);
let v37 = u32(2147483647);
let v38 = v36 & v37;
let v39 = u32(645922816);
let v40 = v38 < v39;
let v41 = u32(0);
let v42 = select(v36, v41, v40);
let v43 = bitcast<f32>(v42);
let v44 = *v72;
let v45 = v44 + v43;
let v46 = bitcast<u32>(v45);
let v47 = v46 ^ v12;
let v48 = bitcast<f32>(v47);
*v72 = v48;

}
let v49 = *v72;
let v50 = v11 * v49;
let v51 = bitcast<u32>(v50);
let v52 = v51 ^ v12;
let v53 = bitcast<f32>(v52);
var<function> v74_store: f32;
let v74 = &v74_store;
*v74 = v53;
let v55 = *v74;
let v56 = bitcast<u32>(v55);
let v57 = u32(2147483647);
let v58 = v56 & v57;
let v59 = u32(645922816);
let v60 = v58 < v59;
let v61 = u32(0);
let v62 = select(v56, v61, v60);
let v63 = bitcast<f32>(v62);
let v68 = &(*v206)[v97];
*v68 = v63;

}
return;

}
