@group(0) @binding(2) var<storage, read_write> v9: array<f32>;
@group(0) @binding(1) var<storage, read> v5: array<f32>;
@group(0) @binding(0) var<storage, read> v1: array<f32>;
struct info_st { scalars_usize: array<u32, 4>, scalars_u32: array<u32, 2>, static_meta: array<u32, 4> }
@group(0) @binding(3) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn exact_product(@builtin(workgroup_id) v193: vec3<u32>, @builtin(num_workgroups) v195: vec3<u32>, @builtin(local_invocation_index) v202: u32) {
let v232 = &v9;
let v233 = &v5;
let v234 = &v1;
let v3 = u32(0);
let v97 = info_var.static_meta[2];
let v13 = info_var.scalars_usize[0];
let v14 = info_var.scalars_usize[1];
let v15 = info_var.scalars_usize[2];
let v16 = info_var.scalars_usize[3];
let v17 = info_var.scalars_u32[0];
let v194 = v193[2];
let v102 = u32(v194);
let v196 = v195[1];
let v104 = u32(v196);
let v105 = v102 * v104;
let v197 = v195[0];
let v107 = u32(v197);
let v108 = v105 * v107;
let v198 = v193[1];
let v110 = u32(v198);
let v113 = v110 * v107;
let v114 = v108 + v113;
let v200 = v193[0];
let v116 = u32(v200);
let v117 = v114 + v116;
let v228 = u32(64);
let v120 = v117 * v228;
let v203 = v202;
let v122 = u32(v203);
let v123 = v120 + v122;
let v20 = v123 < v97;
if v20 {
let v22 = v123 / v15;
var<function> v98_store: u32;
let v98 = &v98_store;
*v98 = v3;
let v26 = f32(0.0);
var<function> v99_store: f32;
let v99 = &v99_store;
*v99 = v26;
let v29 = *v98;
let v30 = v29 < v14;
if v30 {
let v31 = v22 / v13;
let v32 = v31 * v16;
let v34 = v29 * v15;
let v36 = v123 % v15;
let v37 = v34 + v36;
let v39 = u32(1);
for(var v40: u32 = v3; v40 < v16; v40 += v39) {
let v42 = v32 + v40;
let v46 = &(*v234)[v42];
let v47 = *v46;
let v48 = bitcast<u32>(v47);
let v49 = u32(2147483647);
let v50 = v48 & v49;
let v51 = u32(645922816);
let v52 = v50 < v51;
let v53 = u32(0);
let v54 = select(v48, v53, v52);
let v55 = bitcast<f32>(v54);
let v56 = v37 * v16;
let v57 = v56 + v40;
let v61 = &(*v233)[v57];
let v62 = *v61;
let v63 = bitcast<u32>(v62);
let v65 = v63 & v49;
let v67 = v65 < v51;
let v69 = select(v63, v53, v67);
let v70 = bitcast<f32>(v69);
let v71 = v55 * v70;
let v72 = bitcast<u32>(v71);
let v73 = v72 ^ v17;
let v74 = bitcast<f32>(v73);
let v75 = *v99;
let v76 = v75 + v74;
let v77 = bitcast<u32>(v76);
let v78 = v77 ^ v17;
let v79 = bitcast<f32>(v78);
*v99 = v79;

}

}
let v80 = *v99;
let v81 = bitcast<u32>(v80);
let v82 = u32(2147483647);
let v83 = v81 & v82;
let v84 = u32(645922816);
let v85 = v83 < v84;
let v86 = u32(0);
let v87 = select(v81, v86, v85);
let v88 = bitcast<f32>(v87);
let v93 = &(*v232)[v123];
*v93 = v88;

}
return;

}
