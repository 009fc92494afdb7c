@group(0) @binding(1) var<storage, read_write> v5: array<u32>;
@group(0) @binding(0) var<storage, read> v1: array<u32>;
struct info_st { scalars_usize: array<u32, 4>, static_meta: array<u32, 2> }
@group(0) @binding(2) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn sort_histogram(@builtin(workgroup_id) v126: vec3<u32>, @builtin(num_workgroups) v128: vec3<u32>, @builtin(local_invocation_index) v135: u32) {
let v156 = &v5;
let v157 = &v1;
let v9 = info_var.scalars_usize[0];
let v10 = info_var.scalars_usize[1];
let v11 = info_var.scalars_usize[2];
let v127 = v126[2];
let v58 = u32(v127);
let v129 = v128[1];
let v60 = u32(v129);
let v61 = v58 * v60;
let v130 = v128[0];
let v63 = u32(v130);
let v64 = v61 * v63;
let v131 = v126[1];
let v66 = u32(v131);
let v69 = v66 * v63;
let v70 = v64 + v69;
let v133 = v126[0];
let v72 = u32(v133);
let v73 = v70 + v72;
let v153 = u32(64);
let v76 = v73 * v153;
let v136 = v135;
let v78 = u32(v136);
let v79 = v76 + v78;
let v13 = v9 * v10;
let v14 = v79 < v13;
if v14 {
let v16 = v79 % v9;
let v18 = v79 / v9;
let v19 = u32(256);
let v20 = v18 * v19;
let v22 = v20 + v19;
let v23 = min(v22, v11);
let v24 = u32(0);
var<function> v55_store: u32;
let v55 = &v55_store;
*v55 = v24;
let v27 = u32(1);
for(var v28: u32 = v20; v28 < v23; v28 += v27) {
let v33 = &(*v157)[v28];
let v34 = *v33;
let v35 = u32(v34);
let v37 = v9 - v27;
let v38 = min(v35, v37);
let v39 = v38 == v16;
let v40 = u32(1);
let v42 = select(v24, v40, v39);
let v43 = *v55;
let v44 = v43 + v42;
*v55 = v44;

}
let v45 = v16 * v10;
let v46 = v45 + v18;
let v50 = &(*v156)[v46];
let v51 = *v55;
*v50 = v51;

}
return;

}
