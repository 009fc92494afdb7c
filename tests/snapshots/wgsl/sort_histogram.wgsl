@group(0) @binding(1) var<storage, read_write> v5: array<u32>;
@group(0) @binding(0) var<storage, read> v1: array<vec4<u32>>;
struct info_st { scalars_usize: array<u32, 4>, static_meta: array<u32, 2> }
@group(0) @binding(2) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn sort_histogram(@builtin(workgroup_id) v165: vec3<u32>, @builtin(num_workgroups) v167: vec3<u32>, @builtin(local_invocation_index) v174: u32) {
let v195 = &v5;
let v196 = &v1;
let v9 = info_var.scalars_usize[0];
let v10 = info_var.scalars_usize[1];
let v11 = info_var.scalars_usize[2];
let v12 = info_var.scalars_usize[3];
let v166 = v165[2];
let v97 = u32(v166);
let v168 = v167[1];
let v99 = u32(v168);
let v100 = v97 * v99;
let v169 = v167[0];
let v102 = u32(v169);
let v103 = v100 * v102;
let v170 = v165[1];
let v105 = u32(v170);
let v108 = v105 * v102;
let v109 = v103 + v108;
let v172 = v165[0];
let v111 = u32(v172);
let v112 = v109 + v111;
let v192 = u32(64);
let v115 = v112 * v192;
let v175 = v174;
let v117 = u32(v175);
let v118 = v115 + v117;
let v14 = v10 * v11;
let v15 = v118 < v14;
if v15 {
let v17 = v118 % v10;
let v19 = v118 / v10;
let v20 = v19 * v12;
let v21 = u32(4);
let v22 = v20 / v21;
let v24 = v12 / v21;
let v25 = v22 + v24;
let v27 = v9 / v21;
let v28 = min(v25, v27);
let v29 = u32(0);
var<function> v94_store: u32;
let v94 = &v94_store;
*v94 = v29;
let v32 = u32(1);
for(var v33: u32 = v22; v33 < v28; v33 += v32) {
let v38 = &(*v196)[v33];
let v39 = *v38;
let v40 = v39[0];
let v41 = u32(v40);
let v43 = v10 - v32;
let v44 = min(v41, v43);
let v45 = v44 == v17;
let v46 = u32(1);
let v48 = select(v29, v46, v45);
let v49 = *v94;
let v50 = v49 + v48;
*v94 = v50;
let v51 = v39[1];
let v52 = u32(v51);
let v55 = min(v52, v43);
let v56 = v55 == v17;
let v59 = select(v29, v46, v56);
let v60 = *v94;
let v61 = v60 + v59;
*v94 = v61;
let v62 = v39[2];
let v63 = u32(v62);
let v66 = min(v63, v43);
let v67 = v66 == v17;
let v70 = select(v29, v46, v67);
let v71 = *v94;
let v72 = v71 + v70;
*v94 = v72;
let v73 = v39[3];
let v74 = u32(v73);
let v77 = min(v74, v43);
let v78 = v77 == v17;
let v81 = select(v29, v46, v78);
let v82 = *v94;
let v83 = v82 + v81;
*v94 = v83;

}
let v84 = v17 * v11;
let v85 = v84 + v19;
let v89 = &(*v195)[v85];
let v90 = *v94;
*v89 = v90;

}
return;

}
