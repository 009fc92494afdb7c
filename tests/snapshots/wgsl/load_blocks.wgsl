@group(0) @binding(1) var<storage, read_write> v5: array<u32>;
@group(0) @binding(0) var<storage, read> v1: array<u32>;
struct info_st { scalars_usize: array<u32, 6>, static_meta: array<u32, 2> }
@group(0) @binding(2) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn load_blocks(@builtin(workgroup_id) v135: vec3<u32>, @builtin(num_workgroups) v137: vec3<u32>, @builtin(local_invocation_index) v144: u32) {
let v165 = &v5;
let v166 = &v1;
let v3 = u32(0);
let v9 = info_var.scalars_usize[0];
let v10 = info_var.scalars_usize[1];
let v11 = info_var.scalars_usize[2];
let v12 = info_var.scalars_usize[3];
let v13 = info_var.scalars_usize[4];
let v14 = info_var.scalars_usize[5];
let v136 = v135[2];
let v67 = u32(v136);
let v138 = v137[1];
let v69 = u32(v138);
let v70 = v67 * v69;
let v139 = v137[0];
let v72 = u32(v139);
let v73 = v70 * v72;
let v140 = v135[1];
let v75 = u32(v140);
let v78 = v75 * v72;
let v79 = v73 + v78;
let v142 = v135[0];
let v81 = u32(v142);
let v82 = v79 + v81;
let v162 = u32(64);
let v85 = v82 * v162;
let v145 = v144;
let v87 = u32(v145);
let v88 = v85 + v87;
let v16 = v88 / v9;
let v17 = v16 < v14;
if v17 {
let v18 = v16 / v13;
let v19 = v18 * v12;
let v20 = v16 % v13;
let v21 = u32(256);
let v22 = v20 * v21;
let v24 = v22 + v21;
let v25 = min(v24, v12);
let v26 = v19 + v25;
let v27 = v19 + v22;
let v29 = v88 % v9;
let v30 = u32(v29);
let v31 = u32(0);
var<function> v63_store: u32;
let v63 = &v63_store;
*v63 = v31;
let v34 = u32(1);
for(var v35: u32 = v27; v35 < v26; v35 += v34) {
for(var v39: u32 = v3; v39 < v11; v39 += v34) {
let v41 = v35 * v10;
let v42 = v41 + v39;
let v46 = &(*v166)[v42];
let v47 = *v46;
let v48 = v47 == v30;
let v49 = u32(1);
let v51 = select(v31, v49, v48);
let v52 = *v63;
let v53 = v52 + v51;
*v63 = v53;

}

}
let v58 = &(*v165)[v88];
let v59 = *v63;
*v58 = v59;

}
return;

}
