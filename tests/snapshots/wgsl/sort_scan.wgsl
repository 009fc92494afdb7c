var<workgroup> shared_v32: array<u32, 256>;
@group(0) @binding(2) var<storage, read_write> v9: array<u32>;
@group(0) @binding(1) var<storage, read_write> v5: array<u32>;
@group(0) @binding(0) var<storage, read_write> v1: array<u32>;
struct info_st { scalars_usize: array<u32, 6>, static_meta: array<u32, 4> }
@group(0) @binding(3) var<storage, read> info_var: info_st;
@compute @workgroup_size(256, 1, 1)
fn sort_scan(@builtin(local_invocation_index) v150: u32) {
let v153 = &v9;
let v154 = &v5;
let v155 = &v1;
let v3 = u32(0);
let v13 = info_var.scalars_usize[0];
let v14 = info_var.scalars_usize[1];
let v15 = info_var.scalars_usize[2];
let v17 = info_var.scalars_usize[4];
let v18 = info_var.scalars_usize[5];
let v19 = v14 * v15;
let v151 = v150;
let v21 = u32(v151);
let v22 = u32(256);
let v23 = v19 + v22;
let v24 = u32(1);
let v25 = v23 - v24;
let v27 = v25 / v22;
let v28 = v21 * v27;
let v29 = min(v28, v19);
let v30 = v29 + v27;
let v31 = min(v30, v19);
let v142 = &shared_v32;
let v36 = u32(0);
var<function> v143_store: u32;
let v143 = &v143_store;
*v143 = v36;
let v39 = v29 / v15;
var<function> v144_store: u32;
let v144 = &v144_store;
*v144 = v39;
let v41 = v29 % v15;
var<function> v145_store: u32;
let v145 = &v145_store;
*v145 = v41;
for(var v44: u32 = v29; v44 < v31; v44 += v24) {
let v46 = *v144;
let v47 = v46 * v17;
let v48 = *v145;
let v49 = v48 * v18;
let v50 = v47 + v49;
let v54 = &(*v155)[v50];
let v55 = *v54;
let v56 = *v143;
let v57 = v56 + v55;
*v143 = v57;
let v58 = *v145;
let v60 = v58 + v24;
*v145 = v60;
let v61 = *v145;
let v62 = v61 == v15;
if v62 {
*v145 = v3;
let v64 = *v144;
let v66 = v64 + v24;
*v144 = v66;

}

}
let v70 = &(*v142)[v21];
let v71 = *v143;
*v70 = v71;
workgroupBarrier();
var<function> v147_store: u32;
let v147 = &v147_store;
*v147 = v36;
for(var v77: u32 = v3; v77 < v21; v77 += v24) {
let v82 = &(*v142)[v77];
let v83 = *v82;
let v84 = *v147;
let v85 = v84 + v83;
*v147 = v85;

}
*v144 = v39;
*v145 = v41;
for(var v89: u32 = v29; v89 < v31; v89 += v24) {
let v91 = *v144;
let v92 = v91 * v17;
let v93 = *v145;
let v94 = v93 * v18;
let v95 = v92 + v94;
let v99 = &(*v155)[v95];
let v100 = *v99;
let v105 = *v147;
*v99 = v105;
let v108 = v93 == v3;
if v108 {
let v113 = &(*v154)[v91];
*v113 = v105;
let v116 = v14 - v24;
let v118 = v91 == v116;
if v118 {
let v119 = u32(v13);
let v121 = v119 - v105;
let v126 = &(*v153)[v3];
*v126 = v121;

}

}
let v128 = v105 + v100;
*v147 = v128;
let v129 = *v145;
let v131 = v129 + v24;
*v145 = v131;
let v132 = *v145;
let v133 = v132 == v15;
if v133 {
*v145 = v3;
let v135 = *v144;
let v137 = v135 + v24;
*v144 = v137;

}

}
return;

}
