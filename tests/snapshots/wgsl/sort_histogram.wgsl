@group(0) @binding(1) var<storage, read_write> v5: array<u32>;
@group(0) @binding(0) var<storage, read> v1: array<u32>;
struct info_st { scalars_usize: array<u32, 4>, static_meta: array<u32, 2> }
@group(0) @binding(2) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn sort_histogram(@builtin(workgroup_id) v123: vec3<u32>, @builtin(num_workgroups) v125: vec3<u32>, @builtin(local_invocation_index) v132: u32) {
let v153 = &v5;
let v154 = &v1;
let v9 = info_var.scalars_usize[0];
let v10 = info_var.scalars_usize[1];
let v11 = info_var.scalars_usize[2];
let v124 = v123[2];
let v55 = u32(v124);
let v126 = v125[1];
let v57 = u32(v126);
let v58 = v55 * v57;
let v127 = v125[0];
let v60 = u32(v127);
let v61 = v58 * v60;
let v128 = v123[1];
let v63 = u32(v128);
let v66 = v63 * v60;
let v67 = v61 + v66;
let v130 = v123[0];
let v69 = u32(v130);
let v70 = v67 + v69;
let v150 = u32(64);
let v73 = v70 * v150;
let v133 = v132;
let v75 = u32(v133);
let v76 = v73 + v75;
let v13 = v9 * v10;
let v14 = v76 < v13;
if v14 {
let v16 = v76 % v9;
let v18 = v76 / v9;
let v19 = u32(256);
let v20 = v18 * v19;
let v22 = v20 + v19;
let v23 = min(v22, v11);
let v24 = u32(0);
var<function> v52_store: u32;
let v52 = &v52_store;
*v52 = v24;
let v27 = u32(1);
for(var v28: u32 = v20; v28 < v23; v28 += v27) {
let v33 = &(*v154)[v28];
let v34 = *v33;
let v35 = u32(v16);
let v36 = v34 == v35;
let v37 = u32(1);
let v39 = select(v24, v37, v36);
let v40 = *v52;
let v41 = v40 + v39;
*v52 = v41;

}
let v42 = v16 * v10;
let v43 = v42 + v18;
let v47 = &(*v153)[v43];
let v48 = *v52;
*v47 = v48;

}
return;

}
